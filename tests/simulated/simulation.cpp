#include "simulation.h"

#include <algorithm>
#include <cstdio>

#include "algorithms/catalogue.h"
#include "base/check.h"
#include "schedule/postcondition.h"

namespace horing::simulated {

namespace {

// The network speaks of positions; the engine's messages of ranks.
struct Ends final : ConnectionSource {
  Ends(Network& n, const Scenario& s, int32_t p) : network(n), scenario(s), me(p) {}
  Sender& sender(int32_t position, int channel) override {
    return network.connection(me, position, channel).sender();
  }
  Receiver& receiver(int32_t position, int channel) override {
    return network.connection(position, me, channel).receiver();
  }
  int32_t rankOf(int32_t position) const override {
    return scenario.rank_of_position[static_cast<size_t>(position)];
  }
  Network& network;
  const Scenario& scenario;
  int32_t me;
};

struct Work {
  uint64_t steps = 0, messages = 0;
};

// Slices that exist, of one rank's steps.
Work workOf(const CollectiveCall& call, int32_t position, const PlanSettings& settings) {
  std::vector<size_t> tables;
  const Layout layout = call.layout(static_cast<size_t>(position), tables);
  const size_t element_bytes = dataTypeBytes(call.type);
  const Schedule& schedule = call.schedules[static_cast<size_t>(position)];
  const Slicing slicing = layout.isUneven() ? Slicing::fixed(element_bytes, settings.slot_bytes)
                                            : Slicing::choose(schedule, layout.largestChunk(), element_bytes,
                                                              settings.slot_bytes, settings.window);
  Work work;
  for (const Lane& lane : schedule.lanes)
    for (StepCursor cursor(lane, schedule.grid); !cursor.done(); cursor.next()) {
      const size_t count = layout.count(cursor.chunk());
      const auto slices = static_cast<size_t>(slicing.ofChunk(layout, count, element_bytes).slicesOf(count));
      work.steps += slices;
      if (cursor.step().send_to >= 0) work.messages += slices;
    }
  return work;
}

}  // namespace

Simulation::Simulation(const Scenario& scenario, Expectation& expectation)
    : scenario_(scenario),
      expectation_(expectation),
      dice_(~scenario.seed),
      network_(events_, dice_, scenario.weather, scenario.linkShape(), scenario.landings,
               scenario.shape.ranks()),
      ranks_(static_cast<size_t>(scenario.shape.ranks())),
      jobs_(scenario.operations.size()) {
  bind();
  for (size_t i = 0; i < jobs_.size(); ++i) {
    Dice data(scenario.operations[i].data_seed);
    jobs_[i].users = scenario.shape.ranks();
    jobs_[i].shared_inputs.resize(ranks_.size());
    jobs_[i].shared_outputs.resize(ranks_.size());
    for (size_t position = 0; position < ranks_.size(); ++position) {
      jobs_[i].inputs.emplace_back(collectiveCall(i).inputBytes(position));
      fillInput(jobs_[i].inputs.back(), scenario.operations[i].type, data);
    }
  }
  if (isOfMessages(scenario.fault)) countMessages();
  if (scenario.fault == Fault::kDisagreement)
    odd_one_ = static_cast<int32_t>(dice_.between(0, scenario.shape.ranks() - 1));
}

void Simulation::bind() {
  for (const PlanChoice& choice : scenario_.plans) {
    std::vector<Schedule>& all = schedules_.emplace_back();
    for (int32_t position = 0; position < scenario_.shape.ranks(); ++position)
      all.push_back(
          buildSchedule(choice.algorithm, choice.collective, scenario_.shape, position, choice.root).take());
  }
  for (int32_t position = 0; position < scenario_.shape.ranks(); ++position) {
    Ends ends(network_, scenario_, position);
    Rank& me = rank(position);
    for (const std::vector<Schedule>& plan : schedules_) {
      me.plans.push_back(
          std::make_unique<Plan>(plan[static_cast<size_t>(position)], scenario_.settings, ends));
      me.operations.push_back(
          std::make_unique<HostOperation>(*me.plans.back(), scenario_.rank_of_position.data()));
    }
  }
}

CollectiveCall Simulation::collectiveCall(size_t operation) const {
  const OperationChoice& choice = scenario_.operations[operation];
  CollectiveCall call{
      schedules_[choice.plan], scenario_.rank_of_position.data(), choice.count, choice.type, choice.op, {}};
  const bool has_pairs = scenario_.plans[choice.plan].collective == Collective::kAllToAll;
  if (choice.uneven)
    call.block = [&choice, has_pairs](int32_t owner, int32_t taker) {
      return choice.block(owner, has_pairs ? taker : 0);
    };
  return call;
}

// Whether every rank exchanges a message in it. If a rank knows only the sizes of its own messages, empty ones count, too.
bool Simulation::movesSomething(size_t operation) const {
  const OperationChoice& choice = scenario_.operations[operation];
  if (!choice.uneven) return choice.count > 0;
  const Collective collective = scenario_.plans[choice.plan].collective;
  if (collective != Collective::kAllGather && collective != Collective::kReduceScatter) return true;
  for (int32_t owner = 0; owner < scenario_.shape.ranks(); ++owner)
    if (choice.block(owner, 0) > 0) return true;
  return false;
}

void Simulation::countMessages() {
  uint64_t messages = 0;
  for (size_t i = 0; i < jobs_.size(); ++i)
    for (int32_t position = 0; position < scenario_.shape.ranks(); ++position)
      messages += workOf(collectiveCall(i), position, scenario_.settings).messages;
  fault_after_ = messages * static_cast<uint64_t>(scenario_.fault_permille) / 1000;
}

Outcome Simulation::run() {
  for (int32_t position = 0; position < scenario_.shape.ranks(); ++position)
    network_.wakeAt(position, dice_.between(0, scenario_.skew_ns));
  while (!events_.empty() && failure_.empty()) {
    const Event event = events_.take();
    if (narrates_) narrate(event);
    if (event.kind == EventKind::kPoll) {
      poll(static_cast<int32_t>(event.subject));
    } else {
      network_.handle(event);
    }
    if (network_.posted() >= fault_after_) inflictFault();
    if (!network_.violation().empty()) fail(network_.violation());
    if (events_.taken() > kMostEvents) fail("there is no end to it");
  }
  if (failure_.empty()) fail(verdict());
  const auto errors =
      std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return !r.error.ok(); });
  return {
      failure_, steps_, events_.taken(), events_.fingerprint(), events_.nowNs(), static_cast<int>(errors)};
}

// As Communicator::drive() does: errors of links first, then all that can be done now.
void Simulation::poll(int32_t position) {
  Presence& presence = network_.presence(position);
  presence.poll_due = false;
  Rank& me = rank(position);
  if (me.finished || presence.gone_ns != INT64_MAX) return;
  if (me.at == scenario_.operations.size()) return leave(position);
  if (!presence.status.ok()) return finish(position, presence.status);
  if (!me.begun) begin(position);
  HostOperation& operation = *me.operations[scenario_.operations[me.at].plan];
  const bool progressed = operation.poll();
  if (operation.done()) return complete(position);
  if (!operation.status().ok()) return finish(position, operation.status());
  if (progressed) return network_.wake(position);
  // No event wakes it when the last of its messages has left.
  if (presence.handed_over_ns > events_.nowNs()) network_.wakeAt(position, presence.handed_over_ns);
}

void Simulation::begin(int32_t position) {
  Rank& me = rank(position);
  me.begun = true;
  const OperationChoice& choice = scenario_.operations[me.at];
  const CollectiveCall all = collectiveCall(me.at);
  const size_t index = static_cast<size_t>(position);
  const size_t output_bytes = all.outputBytes(index), input_bytes = all.inputBytes(index);
  const Extent extent = all.extent(index, me.tables);
  me.buffer.assign(kGuard + std::max(input_bytes, output_bytes) + kGuard, kUnwritten);
  me.input = jobs_[me.at].inputs[static_cast<size_t>(position)];
  std::byte* base = me.buffer.data() + kGuard;
  const int32_t root = scenario_.rank_of_position[static_cast<size_t>(scenario_.plans[choice.plan].root)];
  const Schedule& schedule = all.schedules[index];
  me.call = {{.collective = schedule.collective,
              .type = choice.type,
              .op = choice.op,
              .uneven = extent.uneven,
              .root = root,
              .count = extent.count,
              .input_blocks = extent.input,
              .output_blocks = extent.output},
             {.input = me.input.data(), .output = base, .factor = factorAt(index)}};
  if (choice.in_place && contractOf(schedule).may_be_in_place) {
    // The larger buffer holds both, the other one at the place of this rank's block.
    const bool is_cut = isCutAtWill(schedule.collective);
    const auto number = static_cast<size_t>(scenario_.rank_of_position[index]);
    const Blocks& blocks = extent.input.given() ? extent.input : extent.output;
    const size_t own = (is_cut           ? 0
                        : blocks.given() ? blocks.offsets[number]
                                         : number * choice.count) *
                       dataTypeBytes(choice.type);
    std::byte* input = base + (input_bytes > 0 && output_bytes > input_bytes ? own : 0);
    std::copy(me.input.begin(), me.input.end(), input);
    me.call.input = input;
    me.call.output = base + (output_bytes > 0 && input_bytes > output_bytes ? own : 0);
  }
  if (position == odd_one_ && me.at == scenario_.fault_operation) {
    // Another count would make its two buffers overlap otherwise than in place, which the library refuses.
    if (dice_.chance(50) || choice.count < 2 || choice.in_place || choice.uneven) {
      me.call.op = choice.op == RedOp::kSum ? RedOp::kMax : RedOp::kSum;
    } else {
      --me.call.count;
    }
  }
  // Who reaches for it before it is there, or after it has gone, does so at 0.
  jobs_[me.at].shared_inputs[index] = me.call.input;
  jobs_[me.at].shared_outputs[index] = me.call.output;
  me.call.peer_inputs = jobs_[me.at].shared_inputs.data();
  me.call.peer_outputs = jobs_[me.at].shared_outputs.data();
  me.operations[choice.plan]->begin(me.call, me.at);
}

// All that a rank was given to read and write is its user's again: it is looked at, and then goes.
void Simulation::complete(int32_t position) {
  Rank& me = rank(position);
  checkOutput(position);
  const CollectiveCall call = collectiveCall(me.at);
  steps_ += workOf(call, position, scenario_.settings).steps;
  jobs_[me.at].shared_inputs[static_cast<size_t>(position)] = nullptr;
  jobs_[me.at].shared_outputs[static_cast<size_t>(position)] = nullptr;
  if (--jobs_[me.at].users == 0) jobs_[me.at] = {};
  Bytes().swap(me.input);
  Bytes().swap(me.buffer);
  me.begun = false;
  if (++me.at == scenario_.operations.size()) return leave(position);
  network_.wakeAt(position, events_.nowNs() + dice_.between(0, scenario_.skew_ns));
}

void Simulation::checkOutput(int32_t position) {
  Rank& me = rank(position);
  const auto index = static_cast<size_t>(position);
  const OperationChoice& choice = scenario_.operations[me.at];
  Job& job = jobs_[me.at];
  const CollectiveCall call = collectiveCall(me.at);
  if (job.outputs.empty()) job.outputs = expectation_.outputs(call, job.inputs);
  const Bytes& expected = job.outputs[index];
  const std::byte* output = me.call.output;
  const auto wrong = std::mismatch(expected.begin(), expected.end(), output).first;
  const bool guards =
      std::all_of(me.buffer.begin(), me.buffer.begin() + kGuard,
                  [](std::byte b) { return b == kUnwritten; }) &&
      std::all_of(me.buffer.end() - kGuard, me.buffer.end(), [](std::byte b) { return b == kUnwritten; });
  // The rank with a different call expects other results; the other ranks must notice.
  const bool is_odd = position == odd_one_ && me.at == scenario_.fault_operation;
  if (wrong != expected.end() && !is_odd)
    fail(formatString("position %d, operation #%zu: byte %zu of %zu is wrong", position, me.at,
                      static_cast<size_t>(wrong - expected.begin()), expected.size()));
  if (!guards) fail(formatString("position %d, operation #%zu: wrote outside its output", position, me.at));
  if (!choice.in_place && me.input != job.inputs[index])
    fail(formatString("position %d, operation #%zu: wrote to its input", position, me.at));
}

void Simulation::leave(int32_t position) {
  const int64_t at_ns = network_.mayLeaveNs(position);
  if (at_ns == events_.nowNs()) return finish(position, {});
  if (at_ns != INT64_MAX) network_.wakeAt(position, at_ns);
}

void Simulation::finish(int32_t position, Status error) {
  Rank& me = rank(position);
  me.finished = true;
  me.error = std::move(error);
  network_.leave(position);
}

void Simulation::inflictFault() {
  fault_after_ = UINT64_MAX;
  if (scenario_.fault == Fault::kDeath) {
    const auto victim = static_cast<int32_t>(dice_.between(0, scenario_.shape.ranks() - 1));
    if (rank(victim).finished) return;
    finish(victim, makeStatus(Code::kRemoteError, "died, as planned"));
    network_.die(victim);
  } else if (network_.connectionCount() > 0) {
    const Connection& c = network_.connectionNumber(
        static_cast<size_t>(dice_.between(0, static_cast<int64_t>(network_.connectionCount()) - 1)));
    if (scenario_.fault == Fault::kCut) return network_.cut(c.from(), c.to());
    network_.breakOff(c.from(), c.to());
    fault_after_ = network_.posted() + static_cast<uint64_t>(dice_.between(1, kLongestPeace));
  }
}

std::string Simulation::verdict() {
  int errors = 0;
  for (int32_t position = 0; position < scenario_.shape.ranks(); ++position) {
    const Rank& me = rank(position);
    if (!me.finished) return formatString("position %d waits for ever", position);
    if (!me.error.ok() && mustEndWell(scenario_.fault))
      return formatString("position %d failed though nothing was lost: ", position) + me.error.toString();
    errors += !me.error.ok();
  }
  // The rank with a different call learns it from the first message, if there is one.
  if (scenario_.fault == Fault::kDisagreement && movesSomething(scenario_.fault_operation) && errors == 0)
    return "nobody noticed that a rank made another call";
  return "";
}

void Simulation::fail(std::string what) {
  if (!failure_.empty() || what.empty()) return;
  failure_ = std::move(what) + "\n  " + scenarioText(scenario_) + "\n" + progress();
}

std::string Simulation::progress() const {
  constexpr int kMostShown = 32;
  std::string text;
  int finished = 0, shown = 0;
  for (size_t position = 0; position < ranks_.size(); ++position) {
    const Rank& me = ranks_[position];
    finished += me.finished && me.error.ok();
    if ((me.finished && me.error.ok()) || ++shown > kMostShown) continue;
    text += formatString("  position %zu: ", position);
    if (me.finished) {
      text += me.error.toString();
    } else if (me.at == scenario_.operations.size()) {
      text += "leaves";
    } else {
      text += formatString("operation #%zu: ", me.at);
      text += me.begun ? me.operations[scenario_.operations[me.at].plan]->obstacle().text : "not begun";
    }
    text += '\n';
  }
  return text + formatString("  %d have finished well, %d are not shown\n", finished,
                             std::max(0, shown - kMostShown));
}

void Simulation::narrate(const Event& event) const {
  static constexpr const char* kNames[] = {"poll",          "piece", "credit",    "sender gone",
                                           "receiver gone", "lost",  "made again"};
  std::printf("%12lld ns  %-13s ", static_cast<long long>(event.at_ns), kNames[static_cast<int>(event.kind)]);
  if (event.kind == EventKind::kPoll || event.kind == EventKind::kLost) {
    std::printf("position %u\n", event.subject);
    return;
  }
  const Connection& c = network_.connectionNumber(event.subject);
  std::printf("%d -> %d lane %d", c.from(), c.to(), c.lane());
  if (event.kind == EventKind::kPiece)
    std::printf(", %u bytes%s", event.bytes, event.last ? ", complete" : "");
  std::printf("\n");
}

}  // namespace horing::simulated
