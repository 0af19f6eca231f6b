#include "paro/strategy.h"

#include <strings.h>

#include <cmath>
#include <string>

namespace horing::paro {

namespace {

constexpr auto N = horingParoWhole;
constexpr auto I = horingParoByGroup;
constexpr auto G = horingParoByAll;

// Indexed by horingParoStrategy_t. State is never coarser than parameters or gradients: 14 of 27 combinations remain.
constexpr Row kRows[horingParoNumStrategies] = {
    {"NNN", "DDP", N, N, N},  {"NNI", "", N, N, I},       {"NII", "", N, I, I}, {"INI", "", I, N, I},
    {"III", "MiCS", I, I, I}, {"NNG", "ZeRO-1", N, N, G}, {"NIG", "", N, I, G}, {"NGG", "ZeRO-2", N, G, G},
    {"ING", "", I, N, G},     {"IIG", "", I, I, G},       {"IGG", "", I, G, G}, {"GNG", "", G, N, G},
    {"GIG", "", G, I, G},     {"GGG", "ZeRO-3", G, G, G},
};

constexpr int kMaxElementBytes = 1024;

horingParoScope_t scopeBetween(horingParoPartition_t fine, horingParoPartition_t coarse) {
  if (fine == I) return horingParoGroup;
  return coarse == I ? horingParoRail : horingParoGlobal;
}

Move move(horingParoPhase_t phase, horingParoCollective_t collective, horingParoPartition_t fine,
          horingParoPartition_t coarse) {
  return {phase, collective, scopeBetween(fine, coarse), coarse};
}

Status checkModel(const horingParoModel_t& model) {
  const bool sane = model.groups >= 1 && model.ranksPerGroup >= 1 && model.microSteps >= 1 &&
                    model.microSteps <= kMaxMicroSteps && model.wireBytes >= 1 &&
                    model.wireBytes <= kMaxElementBytes && model.stateBytes >= 0 &&
                    model.stateBytes <= kMaxElementBytes && model.gradBytes >= 0 &&
                    model.gradBytes <= kMaxElementBytes &&
                    static_cast<int64_t>(model.groups) * model.ranksPerGroup <= INT32_MAX;
  if (!sane)
    return makeStatus(
        Code::kInvalidArgument,
        "model: %d groups of %d ranks, %d micro-steps, %d bytes on the wire, %d of state, %d of gradients: "
        "expected at least 1 of each (state, gradients: 0), at most 2^31-1 ranks, %d micro-steps and %d "
        "bytes",
        model.groups, model.ranksPerGroup, model.microSteps, model.wireBytes, model.stateBytes,
        model.gradBytes, kMaxMicroSteps, kMaxElementBytes);
  if (model.trainable > model.params)
    return makeStatus(
        Code::kInvalidArgument, "model: %llu of %llu parameters are trainable: expected no more than all",
        static_cast<unsigned long long>(model.trainable), static_cast<unsigned long long>(model.params));
  if (model.params > UINT64_MAX / 4096)
    return makeStatus(Code::kInvalidArgument, "model: %llu parameters: expected at most 2^52",
                      static_cast<unsigned long long>(model.params));
  return {};
}

// Saturates at the largest integer.
uint64_t rounded(double bytes) {
  return bytes < 0x1p63 ? static_cast<uint64_t>(std::llround(bytes)) : UINT64_MAX;
}

}  // namespace

Result<const Row*> findRow(horingParoStrategy_t strategy) {
  const int number = static_cast<int>(strategy);
  if (number >= 0 && number < horingParoNumStrategies) return &kRows[number];
  return makeStatus(Code::kInvalidArgument,
                    "strategy is %d: expected horingParoNNN (0) to horingParoGGG (13)", number);
}

Result<horingParoStrategy_t> findStrategy(const char* name) {
  if (::strcasecmp(name, "auto") == 0) return horingParoAuto;
  std::string names;
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    const Row& row = kRows[number];
    if (::strcasecmp(name, row.name) == 0 || (*row.alias && ::strcasecmp(name, row.alias) == 0))
      return static_cast<horingParoStrategy_t>(number);
    names += std::string(row.name) + (*row.alias ? std::string(" (") + row.alias + "), " : ", ");
  }
  return makeStatus(Code::kInvalidArgument, "there is no strategy '%.40s': expected %sor auto", name,
                    names.c_str());
}

bool needsGroups(const Row& row) {
  return row.params == I || row.grads == I || row.state == I;
}

std::vector<Move> movesOf(const Row& row) {
  const auto [name, alias, p, g, os] = row;
  std::vector<Move> moves;
  if (p != N) moves.push_back(move(horingParoPhaseGather, horingParoAllGather, p, N));
  if (g != N) moves.push_back(move(horingParoPhaseReduce, horingParoReduceScatter, g, N));
  if (os != g) moves.push_back(move(horingParoPhaseSyncGrads, horingParoReduceScatter, os, g));
  // So far sums are within each group, or within no ranks: gradients that are not sharded over all ranks must still be summed over the
  // ranks with the same block.
  if (os == I) moves.push_back({horingParoPhaseSyncGrads, horingParoAllReduce, horingParoRail, I});
  if (os == N) moves.push_back({horingParoPhaseSyncGrads, horingParoAllReduce, horingParoGlobal, N});
  if (os != p) moves.push_back(move(horingParoPhaseSyncParams, horingParoAllGather, os, p));
  return moves;
}

Move gatherTo(horingParoPartition_t coarse) {
  return move(horingParoPhaseSyncParams, horingParoAllGather, G, coarse);
}

bool movesGrads(const Move& move) {
  return move.phase == horingParoPhaseReduce || move.phase == horingParoPhaseSyncGrads;
}

int timesOf(horingParoPhase_t phase, int micro_steps) {
  switch (phase) {
    case horingParoPhaseGather:
      return 2 * micro_steps;
    case horingParoPhaseReduce:
      return micro_steps;
    default:
      return 1;
  }
}

Sent sentBy(const Move& move, const Shape& shape, double bytes) {
  const double times = move.collective == horingParoAllReduce ? 2 : 1;
  const double within = times * bytes * (shape.members - 1) / shape.members;
  const double between = times * bytes * (shape.groups - 1) / shape.groups;
  switch (move.scope) {
    case horingParoGroup:
      return {0, within};
    case horingParoRail:
      return {between, 0};
    default:
      return {between / shape.members, within};
  }
}

Result<horingParoEstimate_t> estimate(const Row& row, const horingParoModel_t& model) {
  HORING_TRY(checkModel(model));
  const Shape shape{model.groups, model.ranksPerGroup};
  const double wire = model.wireBytes, grad = model.gradBytes ? model.gradBytes : model.wireBytes,
               all = static_cast<double>(model.params), trainable = static_cast<double>(model.trainable);
  horingParoEstimate_t result{};
  result.memoryBytes =
      rounded(std::ceil(wire * all / shape.divisor(row.params) + grad * trainable / shape.divisor(row.grads) +
                        model.stateBytes * trainable / shape.divisor(row.state)));
  double slow = 0, fast = 0;
  for (const Move& move : movesOf(row)) {
    const double elements = move.phase == horingParoPhaseGather ? all : trainable;
    const double bytes = (movesGrads(move) ? grad : wire) * elements / shape.divisor(move.coarse);
    const Sent sent = sentBy(move, shape, bytes);
    const int times = timesOf(move.phase, model.microSteps);
    slow += times * sent.slow;
    fast += times * sent.fast;
    result.operations[result.numOperations++] = {move.phase,     move.collective,    move.scope,        times,
                                                 rounded(bytes), rounded(sent.slow), rounded(sent.fast)};
  }
  result.slowBytes = rounded(slow);
  result.fastBytes = rounded(fast);
  return result;
}

}  // namespace horing::paro
