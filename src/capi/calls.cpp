#include "capi/calls.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "capi/device_memory.h"
#include "capi/group.h"
#include "capi/settings.h"
#include "capi/streams.h"
#include "comm/calls/arguments.h"

namespace horing {

Result<const int32_t*> blocksInOrder(horingComm_t comm, horingBlockOrder_t order) {
  HORING_TRY(checkHandle(comm));
  if (order == horingRankMajor) return nullptr;
  if (order == horingRailMajor) return comm->communicator->membership().placement().railMajorBlocks();
  return makeStatus(Code::kInvalidArgument,
                    "order is %d: expected horingRankMajor (0) or horingRailMajor (1)",
                    static_cast<int>(order));
}

Status setOperation(Call& call, horingComm_t comm, horingRedOp_t number) {
  if (ReductionOps::mayHave(number)) {
    HORING_TRY(checkHandle(comm));
    HORING_ASSIGN(const PreMulSum made, comm->reduction_ops.find(number));
    if (made.type != call.type)
      return makeStatus(Code::kInvalidArgument,
                        "datatype is %d, and op was made for %s: expected the same type in both",
                        static_cast<int>(call.type), dataTypeName(made.type));
    call.op = RedOp::kPreMulSum;
    call.factor = made.factor;
    call.factor_at = made.factor_at;
    return {};
  }
  if (const std::optional<RedOp> op = redOpOf(number)) {
    call.op = *op;
    return {};
  }
  return makeStatus(Code::kInvalidArgument,
                    "op is %d: expected horingSum (0) to horingAvg (4), horingBitAnd, horingBitOr, "
                    "horingBitXor, or one from horingRedOpCreatePreMulSum",
                    static_cast<int>(number));
}

Result<size_t> bytesOf(size_t count, horingDataType_t type) {
  HORING_TRY(checkType(static_cast<DataType>(type)));
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, dataTypeBytes(static_cast<DataType>(type)), &bytes))
    return makeStatus(Code::kInvalidArgument, "count is %zu: so many elements do not fit into memory", count);
  return bytes;
}

namespace {

// Whether the caller runs the collective now, without waiting: then the communicator checks the arguments, by the rules that it has cached.
bool isCheckedLater(horingComm_t comm, const Command& command, horingStream_t stream) {
  return !stream && std::holds_alternative<CollectiveCommand>(command.work) && !groupIsOpen() &&
         !comm->queue->hasThread();
}

Status check(horingComm_t comm, const Command& command) {
  const Membership& membership = comm->communicator->membership();
  const Caller caller{membership.rank(), membership.ranks(), membership.position()};
  if (const auto* const collective = std::get_if<CollectiveCommand>(&command.work))
    return checkArguments(collective->call, caller);
  const auto entries = command.entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    Call call = *command.call();
    call.input = entries[i].input;
    call.output = entries[i].output;
    call.count = entries[i].count;
    const Status status = checkArguments(call, caller);
    if (!status.ok()) return makeStatus(status.code(), "entry %zu: %s", i, status.message().c_str());
  }
  for (const Transfer& transfer : command.transfers())
    HORING_TRY(checkTransfer(transfer, membership.rank(), membership.ranks()));
  return {};
}

// For host buffers: CUDA's default stream does not order them.
horingStream_t unlessLegacy(horingStream_t stream) {
  return stream == kStreamLegacy ? nullptr : stream;
}

// Marks a one-sided operation on a CUDA stream, and data of a put that are copied there, and binds the communicator to the stream's GPU. On
// other streams the host must reach the data.
Status placeOneSided(horingComm_t comm, Command& command, horingStream_t stream, const CudaDriver& driver) {
  std::optional<int> device;
  if (!isOwnStream(stream)) {
    HORING_ASSIGN(device, gpuOfStream(driver, stream));
  }
  if (command.put_at && !device)
    return makeStatus(
        Code::kInvalidUsage,
        "the window is in memory of GPUs, into which streams of CUDA put: expected a cudaStream_t");
  std::shared_ptr<const CudaDevice> gpu;
  if (device) {
    HORING_ASSIGN(gpu, comm->queue->open(driver, *device));
  }
  for (Transfer& transfer : command.transfers()) {
    const std::byte* const input = transfer.bytes > 0 ? transfer.input() : nullptr;
    if (!input) continue;
    const MemoryPlace place = driver.placeOf(input);
    if (command.put_at && place.kind == MemoryKind::kHost && !place.is_pinned)
      return makeStatus(
          Code::kInvalidUsage,
          "localbuff %p is in memory of the host that is not pinned, and the window in memory of "
          "GPUs: expected memory that GPU %d reads, or pinned memory",
          static_cast<const void*>(input), *device);
    if (!gpu || (place.kind == MemoryKind::kDevice && place.device != *device))
      HORING_TRY(checkHostReaches("localbuff", input));
    if (gpu) HORING_TRY(gpu->checkContext(place.context, "localbuff", input));
    transfer.on_gpu = gpu && place.kind != MemoryKind::kHost;
  }
  if (!gpu) return {};
  HORING_TRY(comm->queue->bind(gpu));
  command.on_gpu = true;
  return comm->queue->checkOneSided(stream);
}

// Marks a command whose buffers are on a GPU, and binds the communicator to the GPU.
Status placeOnGpu(horingComm_t comm, Command& command, horingStream_t stream, const CudaDriver& driver) {
  if (isOneSided(command)) return placeOneSided(comm, command, stream, driver);
  const Where where{comm->communicator->membership().rank(), isOwnStream(stream) ? nullptr : stream,
                    comm->queue->gpuOfCommands()};
  HORING_ASSIGN(const std::optional<GpuBuffers> there, gpuBuffersOf(command, driver, where));
  Call* const call = command.call();
  if (!there) return call ? checkHostReaches("the scalar of op", call->factor_at) : Status();
  if (call && call->timeout_ms == comm->communicator->timeoutMs()) call->timeout_ms = 0;
  if (call && (call->algorithm || call->timeout_ms > 0))
    return makeStatus(
        Code::kInvalidUsage,
        "the buffers are in memory of a GPU, or pinned, managed or none on a cudaStream_t, where a "
        "call has the timeout and the algorithm of its communicator "
        "(horingCommSetTimeout, HORING_ALGO), not those of horingSetCallOptions");
  const auto transfers = command.transfers();
  if (goesBeside(command))
    return makeStatus(
        Code::kInvalidUsage,
        "a message with a tag is in memory of a GPU: expected memory of the host, or horingSend "
        "and horingRecv");
  HORING_ASSIGN(const std::shared_ptr<const CudaDevice> gpu, comm->queue->open(driver, there->device));
  for (const auto& [buffer, place] : there->buffers)
    HORING_TRY(gpu->checkContext(place.context, buffer.name, buffer.at));
  if (call) HORING_TRY(placeScalar(*call, driver, *gpu));
  // Last, so that a refused call leaves the communicator unchanged.
  HORING_TRY(comm->queue->bind(gpu));
  command.on_gpu = true;
  command.pinned = there->pinned;
  for (Transfer& transfer : transfers) transfer.on_gpu = true;
  comm->queue->moveInPlace(command);
  return {};
}

}  // namespace

Status issue(horingComm_t comm, Command&& command, horingStream_t stream) {
  HORING_TRY(checkHandle(comm));
  if (Call* const call = command.call()) HORING_TRY(applyCallOptions(*comm->communicator, *call));
  // The lookup takes a fifth of a small call's time.
  const CudaDriver* const driver = processDriver();
  if (!driver) stream = unlessLegacy(stream);
  if (driver || !isCheckedLater(comm, command, stream)) HORING_TRY(check(comm, command));
  if (driver) HORING_TRY(placeOnGpu(comm, command, stream, *driver));
  if (!command.on_gpu) stream = unlessLegacy(stream);
  return launch(comm, std::move(command), stream);
}

}  // namespace horing
