#include "comm/tuning/estimate.h"

#include <algorithm>

#include "comm/calls/total_bytes.h"
#include "selection/prediction.h"

namespace horing {

namespace {

// The times of larger calls are extrapolated from here, so that a simulation takes little time.
constexpr uint64_t kMostSimulatedBytes = 16 << 20;
constexpr int64_t kMostWork = 3'000'000;  // the limit of one simulation (Question::most_work)

MachineModel machineOf(const Communicator& communicator) {
  const Membership& membership = communicator.membership();
  MachineModel machine = communicator.choices().machine.value_or(MachineModel());
  machine.nodes = membership.job().map().groups();
  machine.ranks_per_node = membership.job().map().largestGroup();
  return machine;
}

Result<double> simulatedUs(const Question& question) {
  Question small = question;
  small.bytes = std::min(question.bytes, kMostSimulatedBytes);
  HORING_ASSIGN(const Prediction up_to_here, predict(small, Record::kNothing));
  const double us = toMicroseconds(up_to_here.result.time);
  if (question.bytes == small.bytes) return us;
  HORING_ASSIGN(const Prediction half, predictAgain(up_to_here, small.bytes / 2, Record::kNothing));
  const double us_per_byte = (us - toMicroseconds(half.result.time)) / static_cast<double>(small.bytes / 2);
  return us + us_per_byte * static_cast<double>(question.bytes - small.bytes);
}

Result<double> collectiveUs(const Communicator& communicator, const CallSpec& spec) {
  Question question;
  question.machine = machineOf(communicator);
  question.collective = spec.collective;
  question.bytes = totalBytes(spec, communicator.membership().ranks());
  if (question.bytes == 0 || question.machine.ranks() == 1) return 0.0;
  const Algorithm* const algorithm =
      communicator.selector().select(spec.collective, question.bytes).algorithm;
  // An algorithm that reads and writes peers' memory is simulated as a direct exchange without copies.
  question.algorithm = algorithm->reachesPeers() ? "direct" : algorithm->name;
  question.ranks = Ranks::kOneNodeIfLikely;
  question.most_work = kMostWork;
  return simulatedUs(question);
}

// The transfers follow one another on the rank's line, in each direction. A transfer to the rank itself takes no time.
double transfersUs(const Communicator& communicator, std::span<const Transfer> transfers) {
  const Membership& membership = communicator.membership();
  const MachineModel machine = machineOf(communicator);
  const GroupMap& map = membership.job().map();
  double sent_us = 0, received_us = 0, latency_us = 0;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == membership.rank()) continue;
    const bool is_near = map.groupOf(transfer.peer) == map.groupOf(membership.rank());
    const LinkModel& link = is_near ? machine.inside : machine.between;
    const double us = link.message_us + static_cast<double>(transfer.bytes) *
                                            picosecondsPerByte(link.gbytes_per_s) /
                                            kPicosecondsPerMicrosecond;
    (transfer.direction == Transfer::Direction::kSend ? sent_us : received_us) += us;
    latency_us = std::max(latency_us, link.latency_us);
  }
  return std::max(sent_us, received_us) + latency_us;
}

}  // namespace

Result<double> estimateUs(const Communicator& communicator, const Command& command) {
  if (command.isExchange()) return transfersUs(communicator, command.transfers());
  if (command.entries().empty()) return collectiveUs(communicator, *command.call());
  double sum_us = 0;
  for (const ListEntry& entry : command.entries()) {
    CallSpec spec = *command.call();
    spec.count = entry.count;
    HORING_ASSIGN(const double us, collectiveUs(communicator, spec));
    sum_us += us;
  }
  return sum_us;
}

}  // namespace horing
