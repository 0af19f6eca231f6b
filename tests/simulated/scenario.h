#pragma once
// Everything that a seed decides about a simulation, except the times of events.
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/shape.h"
#include "base/types.h"
#include "dice.h"
#include "engine/host/plan.h"
#include "network.h"

namespace horing::simulated {

struct PlanChoice {
  std::string algorithm;
  Collective collective = Collective::kAllReduce;
  int32_t root = 0;  // position, where the collective has one
};

struct OperationChoice {
  size_t plan = 0;  // in Scenario::plans
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  size_t count = 0;
  bool in_place = false;
  // Blocks differ in size, about `count` elements each.
  bool uneven = false;
  uint64_t data_seed = 0;
  uint64_t block_seed = 0;

  // If blocks differ, the elements of a rank's block; in all-to-all, of its block for `taker`.
  size_t block(int32_t owner, int32_t taker) const;
};

enum class Fault : uint8_t {
  kNone,
  kCut,           // a link breaks
  kDeath,         // a rank dies
  kDisagreement,  // a rank makes another call than the rest
  kBreak,         // links break, and are made again
};
const char* faultName(Fault fault);
// What happens after so many messages.
inline bool isOfMessages(Fault fault) {
  return fault == Fault::kCut || fault == Fault::kDeath || fault == Fault::kBreak;
}
// Events that no rank may take for an error.
inline bool mustEndWell(Fault fault) {
  return fault == Fault::kNone || fault == Fault::kBreak;
}
Weather weatherOf(Dice& dice);

struct Scenario {
  uint64_t seed = 0;
  Shape shape;
  std::vector<int32_t> rank_of_position;
  std::vector<PlanChoice> plans;  // of one communicator: they share its connections
  std::vector<OperationChoice> operations;
  PlanSettings settings;
  uint32_t slots = 5;
  uint32_t landings = 0;  // that a receiver may tell before they are used; 0: no sender awaits any
  Weather weather;
  int64_t skew_ns = 0;  // at most, before a rank begins its next operation
  Fault fault = Fault::kNone;
  int fault_permille = 0;      // of all messages of the run, after which it happens, see isOfMessages()
  size_t fault_operation = 0;  // kDisagreement: which

  LinkShape linkShape() const { return {kLinkChannels, slots, settings.slot_bytes}; }
};

// The same seed gives the same scenario. About one in a hundred has hundreds of ranks.
Scenario makeScenario(uint64_t seed);
std::string scenarioText(const Scenario& scenario);

// Contributions of moderate size, so that a missing one shows, with a few of any bits.
void fillInput(std::vector<std::byte>& bytes, DataType type, Dice& dice);

}  // namespace horing::simulated
