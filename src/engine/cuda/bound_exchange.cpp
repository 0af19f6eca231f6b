#include "engine/cuda/bound_exchange.h"

#include <algorithm>

#include "base/check.h"

namespace horing::cuda {

namespace {

// Messages in one direction between this rank and a peer.
struct Flow {
  ExchangeFlow flow;
  std::vector<ExchangeMessage> messages;
};

std::vector<Flow> flowsOf(std::span<const Transfer> transfers) {
  std::vector<Flow> flows;
  for (const Transfer& transfer : transfers) {
    const bool sends = transfer.direction() == Transfer::Direction::kSend;
    const int32_t number = BoundExchange::flowNumber(transfer.peer, sends);
    auto flow = std::find_if(flows.begin(), flows.end(),
                             [&](const Flow& other) { return other.flow.number == number; });
    if (flow == flows.end()) {
      flow = flows.insert(flow, Flow());
      flow->flow.number = number;
      flow->flow.sends = sends;
    }
    // Kernels only read the send buffers.
    flow->messages.push_back({const_cast<std::byte*>(transfer.memory()), transfer.bytes});
  }
  return flows;
}

}  // namespace

int32_t exchangeParts(size_t peers, int32_t parts, int32_t blocks) {
  const auto flows = static_cast<int32_t>(2 * std::min<size_t>(peers, kMaxFlows));
  if (peers == 0 || flows > kMaxFlows || blocks < 1) return 0;
  return std::min({parts, blocks, kMaxItemsOfBlock * blocks / flows});
}

Result<std::unique_ptr<BoundExchange>> BoundExchange::make(const std::vector<Port*>& ports,
                                                           const BoundExchangeSettings& settings,
                                                           const Host& host, Memory& memory) {
  std::unique_ptr<BoundExchange> exchange(new BoundExchange(settings, memory));
  const auto parts = static_cast<size_t>(settings.parts);
  for (size_t begin = 0; begin < ports.size(); begin += parts) {
    const auto of_flow = std::span(ports).subspan(begin, parts);
    exchange->parts_of_flow_.push_back(static_cast<uint8_t>(
        parts - static_cast<size_t>(std::count(of_flow.begin(), of_flow.end(), nullptr))));
  }
  HORING_ASSIGN(exchange->ports_, place(memory, std::span<Port* const>(ports)));
  ExchangeView& view = exchange->view_;
  view.ports = exchange->ports_;
  const ExchangeFailure none;
  HORING_ASSIGN(view.failure, place(memory, std::span(&none, 1)));
  view.abort = host.abort;
  if (host.activity) {
    HORING_ASSIGN(std::byte* const runs,
                  memory.allocate(static_cast<size_t>(settings.most_blocks) * sizeof(uint64_t)));
    view.runs = reinterpret_cast<uint64_t*>(runs);
    view.activity = host.activity;
  }
  view.cut = {settings.parts, settings.smallest_part_bytes};
  view.timeout_ns = settings.timeout_ns;
  view.hosts_carry = settings.hosts_carry;
  return exchange;
}

size_t BoundExchange::needsOf(size_t ranks, const BoundExchangeSettings& settings) {
  const auto ports = 2 * ranks * static_cast<size_t>(settings.parts);
  return ports * Memory::roomOf(sizeof(Port)) + Memory::roomOf(ports * sizeof(void*)) +
         Memory::roomOf(sizeof(ExchangeFailure)) +
         Memory::roomOf(static_cast<size_t>(settings.most_blocks) * sizeof(uint64_t));
}

Status BoundExchange::connect(int32_t flow, std::span<Port* const> ports) {
  HORING_CHECK_LE(ports.size(), static_cast<size_t>(settings_.parts));
  HORING_TRY(memory_.write(ports_ + flow * settings_.parts, ports.data(), ports.size_bytes()));
  parts_of_flow_[static_cast<size_t>(flow)] = static_cast<uint8_t>(ports.size());
  return {};
}

std::vector<ExchangeCall> BoundExchange::prepare(std::span<const Transfer> transfers, uint64_t number) const {
  const std::vector<Flow> flows = flowsOf(transfers);
  if (flows.empty()) return {};
  HORING_CHECK_LE(flows.size(), size_t{kMaxFlows});
  size_t longest = 0, total = 0;
  for (const Flow& flow : flows) {
    longest = std::max(longest, flow.messages.size());
    total += flow.messages.size();
  }
  // No deadlock if both ranks have the messages in one group: consider the first unfinished message. All earlier ones are done, so both
  // ends are at the kernel that has it.
  const size_t most = total <= kMaxMessages ? longest : kMaxMessages / flows.size();
  std::vector<ExchangeCall> calls;
  for (size_t begin = 0; begin < longest; begin += most) {
    ExchangeCall& call = calls.emplace_back();
    call.view = view_;
    call.number = number;
    uint16_t count = 0;
    for (const Flow& flow : flows) {
      if (flow.messages.size() <= begin) continue;
      ExchangeFlow& here = call.flows[call.flow_count++] = flow.flow;
      here.first = count;
      here.parts = parts_of_flow_[static_cast<size_t>(here.number)];
      PartCut cut = view_.cut;
      cut.parts = here.parts;
      here.message_count = static_cast<uint16_t>(std::min(most, flow.messages.size() - begin));
      for (size_t i = begin; i < begin + here.message_count; ++i) {
        call.messages[count++] = flow.messages[i];
        call.used_parts = std::max(call.used_parts, cut.used(flow.messages[i].bytes));
      }
    }
    call.blocks = std::min(call.items(), settings_.most_blocks);
  }
  return calls;
}

Status BoundExchange::outcome(ExchangeFailure* where) const {
  ExchangeFailure failure;
  HORING_TRY(memory_.read(&failure, view_.failure, sizeof failure));
  const auto kind = static_cast<Failure::Kind>(failure.kind);
  if (kind == Failure::Kind::kNone) return {};
  if (where) *where = failure;
  const int32_t peer = failure.flow / 2;
  const std::string message =
      formatString("a message of %llu bytes %s rank %d", static_cast<unsigned long long>(failure.expected),
                   failure.flow % 2 != 0 ? "to" : "from", peer);
  if (kind == Failure::Kind::kAborted)
    return makeStatus(Code::kRemoteError, "the kernel was ended while it waited for %s", message.c_str());
  if (kind == Failure::Kind::kOverdue)
    return makeStatus(
        Code::kTimeout,
        "%s did not get on for %llu ms (HORING_TIMEOUT_MS): that rank is stopped, or never made "
        "the call that meets it%s",
        message.c_str(), static_cast<unsigned long long>(failure.timeout_ns / 1'000'000),
        (failure.call & kInGraph) == 0 ? "" : ", or made it outside of a graph and is on another node");
  const std::string came =
      failure.found == ExchangeFailure::kNoMessage
          ? std::string("and the message is of another operation")
          : formatString("and one of %llu bytes arrived", static_cast<unsigned long long>(failure.found));
  return makeStatus(
      Code::kInvalidUsage,
      "%s was expected, %s: sends and receives between two ranks meet in the order of their calls, "
      "and must agree on count and type; and collectives come between them at both alike",
      message.c_str(), came.c_str());
}

}  // namespace horing::cuda
