#include "base/types.h"

namespace horing {

namespace {
struct TypeFacts {
  const char* name;
  size_t bytes;
  bool floating;
};
constexpr TypeFacts kTypes[kDataTypes] = {
    {"int8", 1, false},   {"uint8", 1, false},   {"int32", 4, false},     {"uint32", 4, false},
    {"int64", 8, false},  {"uint64", 8, false},  {"float16", 2, true},    {"float32", 4, true},
    {"float64", 8, true}, {"bfloat16", 2, true}, {"float8e4m3", 1, true}, {"float8e5m2", 1, true},
};
constexpr const char* kOps[kRedOps] = {"sum",  "prod", "max",  "min",      "avg",
                                       "band", "bor",  "bxor", "premulsum"};
constexpr const char* kNames[kCollectives] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                              "reduce",     "gather",         "scatter",    "all_to_all"};

}  // namespace

size_t dataTypeBytes(DataType type) {
  return kTypes[static_cast<int>(type)].bytes;
}
bool isFloatingPoint(DataType type) {
  return kTypes[static_cast<int>(type)].floating;
}
bool hasRedOp(DataType type, RedOp op) {
  const bool works_on_bits = op == RedOp::kBitAnd || op == RedOp::kBitOr || op == RedOp::kBitXor;
  return !works_on_bits || !isFloatingPoint(type);
}
int redOpNumber(RedOp op) {
  const int place = static_cast<int>(op), first_of_ours = static_cast<int>(RedOp::kBitAnd);
  return place < first_of_ours ? place : kBeyondNccl + place - first_of_ours;
}
const char* dataTypeName(DataType type) {
  return kTypes[static_cast<int>(type)].name;
}
const char* redOpName(RedOp op) {
  return kOps[static_cast<int>(op)];
}
bool isReduction(Collective c) {
  return c == Collective::kAllReduce || c == Collective::kReduceScatter || c == Collective::kReduce;
}
bool hasRoot(Collective c) {
  return c == Collective::kBroadcast || c == Collective::kReduce || c == Collective::kGather ||
         c == Collective::kScatter;
}
const char* collectiveName(Collective c) {
  return kNames[static_cast<int>(c)];
}

}  // namespace horing
