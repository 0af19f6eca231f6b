#include "horing_check/roll_call.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <tuple>
#include <utility>

#include "horing_check/node_port.h"

namespace horing::check {

namespace {

using CallClock = std::chrono::steady_clock;

constexpr char kHere = 'y';
// What takes one node down may take more.
constexpr std::chrono::milliseconds kOthersFollow{1000};
// Processes on a busy machine answer late. The library tells nodes of an error at different times, up to 4.5 s apart. A lower node that is
// silent for so long does not report; then the next one does, for which the others wait.
constexpr std::chrono::milliseconds kAnswersWithin{2000}, kLeastAnswer{200}, kPatience{6000},
    kSilentFor{3000}, kCalledWithin{14000}, kAskedEvery{200}, kCallerHas{1000};
constexpr int kLookMs = 50;
constexpr size_t kMostCalls = 256, kMostCallers = 64;  // at once

// The key, and the request.
using Question = std::array<std::byte, std::tuple_size_v<RollCallKey> + 1>;

Question questionOf(const RollCallKey& key, Request request) {
  Question question;
  std::ranges::copy(key, question.begin());
  question.back() = static_cast<std::byte>(request);
  return question;
}

int millisecondsTo(CallClock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - CallClock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

// So long an answer may take, if there is an end.
CallClock::time_point answerBy(CallClock::time_point latest) {
  const CallClock::time_point now = CallClock::now();
  return std::clamp(latest, now + kLeastAnswer, now + kAnswersWithin);
}

// One call: connect, ask, hear the answer.
struct Call {
  Fd fd;
  bool asked = false, over = true;
  Answer answer = Answer::kHere;

  explicit Call(const Endpoint& port) {
    Result<Fd> opened = openSocket(port.address.family);
    if (!opened.ok()) return;
    fd = opened.take();
    over = beginConnect(fd.get(), port) != 0;
    answer = over ? Answer::kGone : Answer::kSilent;
  }
  short events() const { return asked ? POLLIN : POLLOUT; }
  void goOn(const Question& question) {
    char heard = 0;
    if (!asked) {
      asked = ::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL) == std::ssize(question);
      over = !asked;
    } else {
      over = true;
      if (::recv(fd.get(), &heard, 1, 0) == 1 && heard == kHere) answer = Answer::kHere;
    }
    if (over && answer != Answer::kHere) answer = Answer::kGone;
    if (over) fd.reset();
  }
};

void carryOn(std::vector<Call>& calls, const Question& question, CallClock::time_point until) {
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Call*> of;
    for (Call& call : calls)
      if (!call.over) waiting.push_back({call.fd.get(), call.events(), 0}), of.push_back(&call);
    const int left_ms = millisecondsTo(until);
    if (waiting.empty() || left_ms <= 0) return;
    (void)::poll(waiting.data(), waiting.size(), left_ms);
    for (size_t i = 0; i < of.size(); ++i)
      if (waiting[i].revents != 0) of[i]->goOn(question);
  }
}

}  // namespace

struct StatusPort::Caller {
  Fd fd;
  CallClock::time_point until = CallClock::now() + kCallerHas;
  Question question{};
  size_t heard = 0;
};

StatusPort::StatusPort(const RollCallKey& key, Listener listener, const Address& address)
    : key_(key), listener_(std::move(listener.fd)), endpoint_{address, listener.port} {}

Result<std::unique_ptr<StatusPort>> StatusPort::open(const RollCallKey& key, const Rails& rails) {
  HORING_ASSIGN(NodePort opened, openNodePort(rails));
  std::unique_ptr<StatusPort> port(new StatusPort(key, std::move(opened.listener), opened.addresses.front()));
  HORING_TRY(port->thread_.start("the node's status port", [port = port.get()] { port->answerAll(); }));
  return port;
}

StatusPort::~StatusPort() {
  thread_.end([this] { is_closing_ = true; });
}

void StatusPort::answerAll() {
  std::vector<Caller> callers;
  while (!is_closing_) {
    // The callers, and last the listener, unless there are callers enough.
    std::vector<pollfd> events;
    for (const Caller& caller : callers) events.push_back({caller.fd.get(), POLLIN, 0});
    events.push_back({callers.size() < kMostCallers ? listener_.get() : -1, POLLIN, 0});
    (void)::poll(events.data(), events.size(), kLookMs);
    const CallClock::time_point now = CallClock::now();
    std::vector<Caller> still;
    for (size_t i = 0; i < callers.size(); ++i)
      if (events[i].revents == 0 ? now < callers[i].until : hear(callers[i]))
        still.push_back(std::move(callers[i]));
    callers = std::move(still);
    if (events.back().revents == 0) continue;
    Accepted next = acceptNext(listener_);
    if (next.outcome == Accepted::Outcome::kOne)
      callers.push_back({std::move(next.fd)});
    else
      std::this_thread::sleep_for(
          std::chrono::milliseconds(kLookMs));  // no descriptor is left, or the caller is
  }
}

bool StatusPort::hear(Caller& caller) {
  Question& question = caller.question;
  const ssize_t bytes =
      ::recv(caller.fd.get(), question.data() + caller.heard, question.size() - caller.heard, MSG_DONTWAIT);
  if (bytes <= 0) return false;
  caller.heard += static_cast<size_t>(bytes);
  if (caller.heard < question.size()) return true;
  const bool is_roll_call = question == questionOf(key_, Request::kRollCall);
  if (!is_roll_call && question != questionOf(key_, Request::kThere)) return false;
  (void)::send(caller.fd.get(), &kHere, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (is_roll_call) heard_ = true;
  return false;
}

std::vector<Answer> callPorts(const std::vector<Endpoint>& ports, const RollCallKey& key, Request request,
                              CallClock::time_point until) {
  const Question question = questionOf(key, request);
  std::vector<Answer> answers;
  for (size_t at = 0; at < ports.size(); at += kMostCalls) {
    std::vector<Call> calls;
    for (size_t i = at; i < std::min(ports.size(), at + kMostCalls); ++i) calls.emplace_back(ports[i]);
    // Silent ones take their share of the time only.
    const CallClock::time_point now = CallClock::now();
    const auto parts = static_cast<int64_t>((ports.size() - at + kMostCalls - 1) / kMostCalls);
    carryOn(calls, question, now + (until - now) / parts);
    for (const Call& call : calls) answers.push_back(call.answer);
  }
  return answers;
}

Status RollCall::prepare(Nodes& nodes) {
  self_ = nodes.self();
  if (self_ == 0 && ::getrandom(key_.data(), key_.size(), 0) != std::ssize(key_))
    return systemError(errno, "drawing the key of a roll call");
  HORING_TRY(nodes.broadcast(&key_, sizeof key_, 0));
  Endpoint mine;
  if (Result<std::unique_ptr<StatusPort>> opened = StatusPort::open(key_, nodes.ownRails()); opened.ok()) {
    port_ = opened.take();
    mine = port_->endpoint();
  }
  HORING_ASSIGN(const std::vector<char> all, nodes.gather(&mine, sizeof mine));
  ports_.resize(static_cast<size_t>(nodes.count()));
  std::memcpy(ports_.data(), all.data(), all.size());
  std::vector<int32_t> reached(ports_.size());
  if (self_ == 0) {
    const std::vector<Answer> answers =
        callPorts(ports_, key_, Request::kThere, CallClock::now() + kAnswersWithin);
    std::ranges::transform(answers, reached.begin(),
                           [](Answer answer) { return answer == Answer::kHere ? 1 : 0; });
  }
  HORING_TRY(nodes.broadcast(reached));
  for (size_t node = 0; node < ports_.size(); ++node)
    if (reached[node] == 0) ports_[node].port = 0;
  return {};
}

std::vector<Endpoint> RollCall::portsOf(const std::vector<int>& nodes) const {
  std::vector<Endpoint> ports;
  for (const int node : nodes) ports.push_back(ports_[static_cast<size_t>(node)]);
  return ports;
}

// The best answer of lower nodes, asking node 0, 1, the next two, four: nearly all nodes have their answer from the first that runs. One that
// is not looked for may run.
Answer RollCall::below(CallClock::time_point latest) const {
  Answer best = Answer::kGone;
  for (int from = 0, to = 1; from < self_; from = to, to = std::min(2 * to, self_)) {
    std::vector<int> asked;
    for (int node = from; node < to; ++node) asked.push_back(node);
    if (!std::ranges::all_of(asked, [&](int node) { return looksFor(node); })) return Answer::kHere;
    for (const Answer answer : callPorts(portsOf(asked), key_, Request::kThere, answerBy(latest)))
      best = std::min(best, answer);
    if (CallClock::now() >= latest) break;
    if (best == Answer::kHere) break;
  }
  return best;
}

std::optional<std::vector<int>> RollCall::missing(CallClock::time_point latest) {
  if (ports_.empty()) return self_ == 0 ? std::optional(std::vector<int>()) : std::nullopt;
  const CallClock::time_point begin = CallClock::now();
  while (self_ != 0) {
    const Answer lower = looksFor(self_) ? below(latest) : Answer::kHere;
    const CallClock::time_point now = CallClock::now();
    // Looked at last: who has made the roll call may have left since.
    if (port_ && port_->heardRollCall()) return std::nullopt;
    if (lower == Answer::kGone || (lower == Answer::kSilent && now >= std::min(latest, begin + kSilentFor)))
      break;
    if (now >= std::min(latest, begin + kCalledWithin)) return std::nullopt;
    std::this_thread::sleep_for(kAskedEvery);
  }
  if (CallClock::now() + kOthersFollow + kAnswersWithin < latest) std::this_thread::sleep_for(kOthersFollow);
  return callAll(std::min(latest, CallClock::now() + kPatience));
}

// Calls those that are silent again, until then.
std::vector<int> RollCall::callAll(CallClock::time_point until) const {
  std::vector<int> gone, silent;
  for (int node = 0; node < std::ssize(ports_); ++node)
    if (looksFor(node) && node != self_) silent.push_back(node);
  do {
    const std::vector<Answer> answers = callPorts(portsOf(silent), key_, Request::kRollCall, answerBy(until));
    std::vector<int> still;
    for (size_t i = 0; i < silent.size(); ++i) {
      if (answers[i] == Answer::kGone) gone.push_back(silent[i]);
      if (answers[i] == Answer::kSilent) still.push_back(silent[i]);
    }
    silent = std::move(still);
  } while (!silent.empty() && CallClock::now() < until);
  gone.insert(gone.end(), silent.begin(), silent.end());
  std::ranges::sort(gone);
  return gone;
}

void RollCall::dismiss() {
  (void)callAll(CallClock::now());
}

}  // namespace horing::check
