#include "comm/tuning/estimate.h"

#include <algorithm>
#include <utility>

#include "comm/calls/total_bytes.h"
#include "selection/prediction.h"
#include "sim/bottleneck.h"

namespace horing {

namespace {

// The times of larger calls are extrapolated from here, so that a simulation takes little time.
constexpr uint64_t kMostSimulatedBytes = 16 << 20;
constexpr int64_t kMostWork = 3'000'000;  // the limit of one simulation (Question::most_work)

MachineModel machineOf(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  MachineModel machine = communicator.choices().machine.value_or(MachineModel());
  machine.setNodes(membership.placement().map().sizes());
  return machine;
}

Result<Estimate> simulatedTime(const Question& question, bool explains) {
  Question small = question;
  small.bytes = std::min(question.bytes, kMostSimulatedBytes);
  HORING_ASSIGN(const Prediction up_to_here,
                predict(small, explains ? Record::kEverything : Record::kNothing));
  Estimate found{toMicroseconds(up_to_here.result.time), {}};
  if (explains) {
    HORING_ASSIGN(const FoldedNetwork network,
                  FoldedNetwork::build(*up_to_here.schedules, up_to_here.folding));
    found.bottleneck = bottleneckText(up_to_here.result, network, up_to_here.bound);
  }
  if (question.bytes == small.bytes) return found;
  HORING_ASSIGN(const Prediction half, predictAgain(up_to_here, small.bytes / 2, Record::kNothing));
  const double us_per_byte =
      (found.us - toMicroseconds(half.result.time)) / static_cast<double>(small.bytes / 2);
  found.us += us_per_byte * static_cast<double>(question.bytes - small.bytes);
  return found;
}

Result<Estimate> collectiveTime(const Communicator& communicator, const CallSpec& spec, bool explains) {
  Question question;
  question.machine = machineOf(communicator);
  question.collective = spec.collective;
  const int ranks = communicator.membership().ranks();
  question.bytes = totalBytes(spec, ranks);
  if (question.bytes == 0 || question.machine.ranks() == 1) return Estimate();
  const std::shared_ptr<const Selector> selector = communicator.selector();
  const size_t size = selectionBytes(agreedCount(spec, ranks), question.bytes);
  const Algorithm* const algorithm =
      spec.algorithm ? findAlgorithm(spec.algorithm) : selector->select(spec.collective, size).algorithm;
  // An algorithm that reads and writes peers' memory is simulated as a direct exchange without copies.
  question.algorithm = algorithm->reachesPeers() ? "direct" : algorithm->name;
  question.ranks = Ranks::kOneNodeIfLikely;
  question.most_work = kMostWork;
  return simulatedTime(question, explains);
}

// Messages in one direction.
struct Direction {
  double line_us = 0, handling_us = 0;
  double us() const { return line_us + handling_us; }
};

// The transfers follow one another on the rank's line, in each direction. A transfer to the rank itself takes no time.
Estimate transfersTime(const Communicator& communicator, std::span<const Transfer> transfers) {
  const Membership& membership = communicator.membership();
  const MachineModel machine = machineOf(communicator);
  const GroupMap& map = membership.placement().map();
  Direction sent, received;
  double latency_us = 0;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == membership.rank()) continue;
    const bool is_near = map.groupOf(transfer.peer) == map.groupOf(membership.rank());
    const LinkModel& link = is_near ? machine.inside : machine.between;
    Direction& direction = transfer.direction() == Transfer::Direction::kSend ? sent : received;
    direction.line_us += static_cast<double>(transfer.bytes) * picosecondsPerByte(link.gbytes_per_s) /
                         kPicosecondsPerMicrosecond;
    direction.handling_us += link.message_us;
    latency_us = std::max(latency_us, link.latency_us);
  }
  const Direction& longest = sent.us() > received.us() ? sent : received;
  const double us = longest.us() + latency_us;
  if (us <= 0) return {};
  const std::pair<double, const char*> parts[] = {{longest.line_us, "links: this rank's are busy"},
                                                  {longest.handling_us, "cores: messages are handled"},
                                                  {latency_us, "latency: messages are under way"}};
  const auto& [most_us, what] = *std::ranges::max_element(parts);
  return {us, formatString("%s for %.0f %% of the time", what, 100 * most_us / us)};
}

}  // namespace

Result<Estimate> estimate(const Communicator& communicator, const Command& command, bool explains) {
  if (command.isTask()) return Estimate();
  if (command.isExchange()) return transfersTime(communicator, command.transfers());
  if (command.entries().empty()) return collectiveTime(communicator, *command.call(), explains);
  Estimate sum;
  double longest_us = 0;
  for (const ListEntry& entry : command.entries()) {
    CallSpec spec = *command.call();
    spec.count = entry.count;
    HORING_ASSIGN(Estimate one, collectiveTime(communicator, spec, explains));
    sum.us += one.us;
    if (one.us > longest_us) longest_us = one.us, sum.bottleneck = std::move(one.bottleneck);
  }
  return sum;
}

}  // namespace horing
