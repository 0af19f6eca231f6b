// Collectives and messages.
#include "nccl/call_settings.h"
#include "nccl/face.h"

using namespace horing::nccl;

NCCL_FACE(ncclResult_t, Reduce,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
           int root, ncclComm_t comm, cudaStream_t stream)) {
  return answer(
      horingReduce(sendbuff, recvbuff, count, own(datatype), own(op), root, own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, Broadcast,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
           ncclComm_t comm, cudaStream_t stream)) {
  return answer(horingBroadcast(sendbuff, recvbuff, count, own(datatype), root, own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, Bcast,
          (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
           cudaStream_t stream)) {
  return answer(horingBroadcast(buff, buff, count, own(datatype), root, own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, AllReduce,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
           ncclComm_t comm, cudaStream_t stream)) {
  return answer(horingAllReduce(sendbuff, recvbuff, count, own(datatype), own(op), own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, ReduceScatter,
          (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
           ncclComm_t comm, cudaStream_t stream)) {
  return answer(
      horingReduceScatter(sendbuff, recvbuff, recvcount, own(datatype), own(op), own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, AllGather,
          (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
           cudaStream_t stream)) {
  return answer(horingAllGather(sendbuff, recvbuff, sendcount, own(datatype), own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, AlltoAll,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
           cudaStream_t stream)) {
  return answer(horingAlltoAll(sendbuff, recvbuff, count, own(datatype), own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, Gather,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
           ncclComm_t comm, cudaStream_t stream)) {
  return answer(horingGather(sendbuff, recvbuff, count, own(datatype), root, own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, Scatter,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
           ncclComm_t comm, cudaStream_t stream)) {
  return answer(horingScatter(sendbuff, recvbuff, count, own(datatype), root, own(comm), own(stream)));
}

// Each function has settings of the call, which are checked first.
namespace {
template <typename Call>
ncclResult_t withSettings(const ncclCollConfig_t* config, ncclComm_t comm, bool folds, Call call) {
  CallOptions options;
  ncclResult_t settled = readCallSettings(config, options);
  if (settled == ncclSuccess) settled = checkCallOptions(options, comm, folds);
  if (settled != ncclSuccess) return refuseGroup(settled);
  const WithOptions in_effect(options);
  return in_effect.status() == ncclSuccess ? call() : refuseGroup(in_effect.status());
}
}  // namespace

NCCL_FACE(ncclResult_t, ReduceConfig,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
           int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return withSettings(config, comm, true, [&] {
    return pncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  });
}

NCCL_FACE(ncclResult_t, BroadcastConfig,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
           ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return withSettings(config, comm, false, [&] {
    return pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream);
  });
}

NCCL_FACE(ncclResult_t, AllReduceConfig,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
           ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return withSettings(config, comm, true,
                      [&] { return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream); });
}

NCCL_FACE(ncclResult_t, ReduceScatterConfig,
          (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
           ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return withSettings(config, comm, true, [&] {
    return pncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  });
}

NCCL_FACE(ncclResult_t, AllGatherConfig,
          (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
           cudaStream_t stream, const ncclCollConfig_t* config)) {
  return withSettings(config, comm, false,
                      [&] { return pncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream); });
}

NCCL_FACE(ncclResult_t, AlltoAllConfig,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
           cudaStream_t stream, const ncclCollConfig_t* config)) {
  return withSettings(config, comm, false,
                      [&] { return pncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream); });
}

NCCL_FACE(ncclResult_t, GatherConfig,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
           ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return withSettings(config, comm, false,
                      [&] { return pncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}

NCCL_FACE(ncclResult_t, ScatterConfig,
          (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
           ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return withSettings(config, comm, false,
                      [&] { return pncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}

NCCL_FACE(ncclResult_t, Send,
          (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
           cudaStream_t stream)) {
  return answer(horingSend(sendbuff, count, own(datatype), peer, own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, Recv,
          (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
           cudaStream_t stream)) {
  return answer(horingRecv(recvbuff, count, own(datatype), peer, own(comm), own(stream)));
}

NCCL_FACE(ncclResult_t, RedOpCreatePreMulSum,
          (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
           ncclComm_t comm)) {
  return answer(horingRedOpCreatePreMulSum(reinterpret_cast<horingRedOp_t*>(op), scalar, own(datatype),
                                           static_cast<horingScalarResidence_t>(residence), own(comm)));
}

NCCL_FACE(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  return answer(horingRedOpDestroy(own(op), own(comm)));
}
