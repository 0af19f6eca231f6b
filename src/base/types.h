#pragma once
// The collectives, element types and operations. Numbers are the same as in the C API, except for operations that NCCL has no number for;
// see redOpNumber().
#include <cstddef>
#include <cstdint>
#include <optional>

namespace horing {

enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
};
inline constexpr int kCollectives = 8;

enum class DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};
inline constexpr int kDataTypes = 12;

enum class RedOp : int {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kBitAnd = 5,
  kBitOr = 6,
  kBitXor = 7,
  kPreMulSum = 8,  // a sum of inputs, each multiplied by a scalar of its rank
};
inline constexpr int kRedOps = 9;

size_t dataTypeBytes(DataType type);
bool isFloatingPoint(DataType type);
// Whether the operation supports the type: bitwise operations need integers.
bool hasRedOp(DataType type, RedOp op);
// The operation's number in the C API: the same up to kAvg, then far above the numbers that NCCL may yet assign. Not for kPreMulSum, whose
// numbers are handles that users make.
int redOpNumber(RedOp op);
inline constexpr int kBeyondNccl = 0x10000000;
// The operation with that number; nothing if there is none. Inline: returning an optional through memory costs a small call 4 ns.
inline std::optional<RedOp> redOpOf(int number) {
  const int first_of_ours = static_cast<int>(RedOp::kBitAnd);
  const int place = number < kBeyondNccl ? number : number - kBeyondNccl + first_of_ours;
  const bool has_number = number < kBeyondNccl ? place >= 0 && place < first_of_ours
                                               : place < static_cast<int>(RedOp::kPreMulSum);
  return has_number ? std::optional(static_cast<RedOp>(place)) : std::nullopt;
}
const char* dataTypeName(DataType type);   // "float32"
const char* redOpName(RedOp op);           // "sum"
const char* collectiveName(Collective c);  // "all_reduce"
// Whether the collective takes a RedOp.
bool isReduction(Collective c);
// Whether the collective has a root.
bool hasRoot(Collective c);

}  // namespace horing
