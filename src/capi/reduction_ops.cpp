// Premulsum: sums of inputs that are multiplied by a scalar.
#include "capi/device_memory.h"
#include "capi/handle.h"
#include "comm/calls/arguments.h"

namespace horing {

namespace {

Status createPreMulSum(horingRedOp_t* op, const void* scalar, horingDataType_t type,
                       horingScalarResidence_t residence, horingComm_t comm) {
  HORING_TRY(checkHandle(comm));
  if (!op || !scalar)
    return makeStatus(Code::kInvalidArgument, "%s is NULL: expected %s", op ? "scalar" : "op",
                      op ? "the address of one element" : "where to put the operation");
  HORING_TRY(checkType(static_cast<DataType>(type)));
  PreMulSum made{.type = static_cast<DataType>(type)};
  if (residence == horingScalarHostImmediate) {
    HORING_TRY(checkHostReaches("scalar", scalar));
    made.factor = factorFrom(made.type, scalar);
  } else if (residence == horingScalarDevice) {
    made.factor_at = scalar;
  } else {
    return makeStatus(Code::kInvalidArgument,
                      "residence is %d: expected horingScalarDevice (0) or horingScalarHostImmediate (1)",
                      static_cast<int>(residence));
  }
  HORING_ASSIGN(const int number, comm->reduction_ops.add(made));
  *op = static_cast<horingRedOp_t>(number);
  return {};
}

}  // namespace

}  // namespace horing

extern "C" {

horingResult_t horingRedOpCreatePreMulSum(horingRedOp_t* op, void* scalar, horingDataType_t datatype,
                                          horingScalarResidence_t residence, horingComm_t comm) {
  using namespace horing;
  return guarded(comm, [&] { return createPreMulSum(op, scalar, datatype, residence, comm); });
}

horingResult_t horingRedOpDestroy(horingRedOp_t op, horingComm_t comm) {
  using namespace horing;
  return guarded(comm, [&]() -> Status {
    HORING_TRY(checkHandle(comm));
    return comm->reduction_ops.remove(op);
  });
}

}  // extern "C"
