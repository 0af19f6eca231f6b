#include "paro/strategy.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/word.h"

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
constexpr int kMaxCountedRanks = 65535;

horingParoScope_t scopeBetween(horingParoPartition_t fine, horingParoPartition_t coarse) {
  if (fine == I) return horingParoGroup;
  return coarse == I ? horingParoRail : horingParoGlobal;
}

Move move(horingParoPhase_t phase, horingParoCollective_t collective, horingParoPartition_t fine,
          horingParoPartition_t coarse) {
  return {phase, collective, scopeBetween(fine, coarse), coarse};
}

int membersOf(const horingParoModel_t& model, int group) {
  return model.groupSizes ? model.groupSizes[group] : model.ranksPerGroup;
}

Status checkGroups(const horingParoModel_t& model) {
  int64_t ranks = 0;
  for (int group = 0; group < model.groups; ++group) {
    const int size = model.groupSizes[group];
    if (size < 1 || size > kMaxCountedRanks)
      return makeStatus(Code::kInvalidArgument, "model: groupSizes[%d] is %d: expected 1 to %d", group, size,
                        kMaxCountedRanks);
    ranks += size;
  }
  if (ranks > kMaxCountedRanks)
    return makeStatus(Code::kInvalidArgument, "model: %lld ranks in groupSizes: expected at most %d",
                      static_cast<long long>(ranks), kMaxCountedRanks);
  if (model.group < 0 || model.group >= model.groups || model.localIndex < 0 ||
      model.localIndex >= model.groupSizes[model.group])
    return makeStatus(Code::kInvalidArgument,
                      "model: there is no rank %d in group %d: expected an index below groupSizes, and a "
                      "group below %d",
                      model.localIndex, model.group, model.groups);
  return {};
}

Status checkBucket(const horingParoModel_t& model) {
  const int64_t ranks = model.groupSizes ? 0 : static_cast<int64_t>(model.groups) * model.ranksPerGroup;
  if (ranks > kMaxCountedRanks)
    return makeStatus(Code::kInvalidArgument, "model: a bucket of %lld ranks: expected at most %d",
                      static_cast<long long>(ranks), kMaxCountedRanks);
  if (model.trainable == 0 || model.trainable == model.params) return {};
  return makeStatus(Code::kInvalidArgument,
                    "model: %llu of %llu parameters of a bucket are trainable: expected all or none",
                    static_cast<unsigned long long>(model.trainable),
                    static_cast<unsigned long long>(model.params));
}

Status checkModel(const horingParoModel_t& model) {
  const int per_group = model.groupSizes ? 1 : model.ranksPerGroup;
  const bool sane =
      model.groups >= 1 && per_group >= 1 && model.microSteps >= 1 && model.microSteps <= kMaxMicroSteps &&
      model.wireBytes >= 1 && model.wireBytes <= kMaxElementBytes && model.stateBytes >= 0 &&
      model.stateBytes <= kMaxElementBytes && model.gradBytes >= 0 && model.gradBytes <= kMaxElementBytes &&
      static_cast<int64_t>(model.groups) * per_group <= INT32_MAX;
  if (!sane)
    return makeStatus(
        Code::kInvalidArgument,
        "model: %d groups of %d ranks, %d micro-steps, %d bytes on the wire, %d of state, %d of gradients: "
        "expected at least 1 of each (state, gradients: 0), at most 2^31-1 ranks, %d micro-steps and %d "
        "bytes",
        model.groups, per_group, model.microSteps, model.wireBytes, model.stateBytes, model.gradBytes,
        kMaxMicroSteps, kMaxElementBytes);
  if (model.isBucket < 0 || model.isBucket > 1 || model.reserved != 0)
    return makeStatus(Code::kInvalidArgument, "model: isBucket is %d and reserved %d: expected 0 or 1, and 0",
                      model.isBucket, model.reserved);
  if (model.groupSizes) HORING_TRY(checkGroups(model));
  if (model.isBucket) HORING_TRY(checkBucket(model));
  if (model.trainable > model.params)
    return makeStatus(
        Code::kInvalidArgument, "model: %llu of %llu parameters are trainable: expected no more than all",
        static_cast<unsigned long long>(model.trainable), static_cast<unsigned long long>(model.params));
  if (model.params > UINT64_MAX / 4096)
    return makeStatus(Code::kInvalidArgument, "model: %llu parameters: expected at most 2^52",
                      static_cast<unsigned long long>(model.params));
  return {};
}

int gradBytes(const horingParoModel_t& model) {
  return model.gradBytes ? model.gradBytes : model.wireBytes;
}

// Saturates at the largest integer.
uint64_t rounded(double bytes) {
  return bytes < 0x1p63 ? static_cast<uint64_t>(std::llround(bytes)) : UINT64_MAX;
}

uint64_t memoryOf(const Row& row, const horingParoModel_t& model, const Shares& shares) {
  const auto all = static_cast<double>(model.params), trainable = static_cast<double>(model.trainable);
  return rounded(std::ceil(model.wireBytes * all / shares.divisor(row.params) +
                           gradBytes(model) * trainable / shares.divisor(row.grads) +
                           model.stateBytes * trainable / shares.divisor(row.state)));
}

// A vector over its longest block: the time is that of the rank with most to move.
double divisorOf(const Move& move, const Shares& shares) {
  return move.coarse == I ? shares.fewest_members : 1;
}

}  // namespace

Result<const Row*> findRow(horingParoStrategy_t strategy) {
  const int number = static_cast<int>(strategy);
  if (number >= 0 && number < horingParoNumStrategies) return &kRows[number];
  return makeStatus(Code::kInvalidArgument,
                    "strategy is %d: expected horingParoNNN (0) to horingParoGGG (13)", number);
}

Result<horingParoStrategy_t> findStrategy(const char* name) {
  if (isSameWord(name, "auto")) return horingParoAuto;
  std::string names;
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    const Row& row = kRows[number];
    if (isSameWord(name, row.name) || (*row.alias && isSameWord(name, row.alias)))
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

horingParoPartition_t fineOf(const Move& move) {
  return move.scope == horingParoGroup ? I : G;
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

Sent sentBy(const Move& move, const Shares& shares, double bytes) {
  const bool gathers = move.collective == horingParoAllGather;
  const double times = move.collective == horingParoAllReduce ? 2 : 1;
  const double part = bytes / shares.members;  // of the rank, in what its group sends
  const double within = times * part * (shares.members - 1);
  const double equal = times * part * (shares.groups - 1) / shares.groups;
  if (move.scope == horingParoGroup) return {0, within};
  if (move.scope == horingParoRail) {  // the parts of others, to them; or the own part, to all
    const double between = gathers ? bytes / shares.all * (shares.groups - 1) : part - bytes / shares.all;
    return {times == 2 ? equal : between, 0};
  }
  // Between the groups goes a ring.
  const double between = part * (1 - (gathers ? shares.next_group : shares.group));
  return {times == 2 ? equal : between, within};
}

horingParoEstimate_t collectivesOf(const Row& row, const horingParoModel_t& model, const Shares& shares) {
  horingParoEstimate_t result = HORING_PARO_ESTIMATE_INITIALIZER;
  double slow = 0, fast = 0;
  for (const Move& move : movesOf(row)) {
    const auto elements =
        static_cast<double>(move.phase == horingParoPhaseGather ? model.params : model.trainable);
    const double bytes = (movesGrads(move) ? gradBytes(model) : model.wireBytes) * elements;
    const Sent sent = sentBy(move, shares, bytes);
    const int times = timesOf(move.phase, model.microSteps);
    slow += times * sent.slow;
    fast += times * sent.fast;
    result.operations[result.numOperations++] = {
        move.phase,         move.collective,   move.scope, times, rounded(bytes / divisorOf(move, shares)),
        rounded(sent.slow), rounded(sent.fast)};
  }
  result.slowBytes = rounded(slow);
  result.fastBytes = rounded(fast);
  return result;
}

uint64_t bucketMemory(const Row& row, const horingParoModel_t& model, const Padded& bucket,
                      const Blocks& blocks, int rank) {
  const auto kept = [&](horingParoPartition_t partition, int element_bytes) {
    return blocks.of(partition, rank, bucket).count * static_cast<uint64_t>(element_bytes);
  };
  return kept(row.params, model.wireBytes) + kept(row.grads, model.trainable ? gradBytes(model) : 0) +
         kept(row.state, model.stateBytes);
}

Result<horingParoEstimate_t> estimate(const Row& row, const horingParoModel_t& given) {
  HORING_TRY(checkModel(given));
  if (!given.groupSizes && !given.isBucket) {
    const Shares shares = Shares::even(given.groups, given.ranksPerGroup);
    horingParoEstimate_t result = collectivesOf(row, given, shares);
    result.memoryBytes = result.largestMemoryBytes = memoryOf(row, given, shares);
    return result;
  }
  std::vector<Blocks::Place> places;
  int asked = 0;  // the rank
  for (int group = 0; group < given.groups; ++group)
    for (int local = 0; local < membersOf(given, group); ++local) {
      if (group == given.group && local == given.localIndex) asked = static_cast<int>(places.size());
      places.push_back({group, local});
    }
  const Blocks blocks(std::move(places), needsGroups(row));
  horingParoModel_t model = given;
  const Padded bucket = blocks.padded(given.params, static_cast<size_t>(given.wireBytes));
  if (given.isBucket) model.params = bucket.count;
  if (given.isBucket && given.trainable) model.trainable = bucket.count;
  const auto memory = [&](int rank) {
    return given.isBucket ? bucketMemory(row, model, bucket, blocks, rank)
                          : memoryOf(row, model, blocks.shares(rank));
  };
  horingParoEstimate_t result = collectivesOf(row, model, blocks.shares(asked));
  result.memoryBytes = memory(asked);
  for (int rank = 0; rank < blocks.ranks(); ++rank)
    result.largestMemoryBytes = std::max(result.largestMemoryBytes, memory(rank));
  return result;
}

}  // namespace horing::paro
