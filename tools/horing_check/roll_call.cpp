#include "horing_check/roll_call.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/config.h"
#include "transport/socket/interfaces.h"

namespace horing::check {

namespace {

using CallClock = std::chrono::steady_clock;

constexpr char kHere = 'y';
// Processes on a busy machine answer late. The library tells nodes of an error at different times, up to 4.5 s apart.
// What takes one node down may take more.
constexpr std::chrono::milliseconds kOthersFollow{1000};
// Processes on a busy machine answer late. The library tells nodes of an error at different times, up to 4.5 s apart. A lower node that is
// silent for so long does not report; then the next one does, for which the others wait.
constexpr std::chrono::milliseconds kAnswersWithin{2000}, kLeastAnswer{200}, kPatience{6000},
    kSilentFor{3000}, kCalledWithin{14000}, kAskedEvery{200};
constexpr int kCallerMs = 1000, kLookMs = 50;
constexpr size_t kMostCalls = 256;  // at once

bool isReady(int fd, short events, int most_ms) {
  pollfd one{fd, events, 0};
  return ::poll(&one, 1, most_ms) > 0;
}

// One conversation: connect, say the word, hear the answer.
struct Talk {
  Fd fd;
  bool said = false, over = true;
  Answer answer = Answer::kGone;

  Talk(const Endpoint& door) {
    Result<Fd> opened = openSocket(door.address.family);
    if (!opened.ok()) return;
    fd = opened.take();
    over = beginConnect(fd.get(), door) != 0;
    if (!over) answer = Answer::kSilent;
  }
  short events() const { return said ? POLLIN : POLLOUT; }
  void goOn(Word word) {
    const char text = static_cast<char>(word);
    char heard = 0;
    if (!said) {
      said = ::send(fd.get(), &text, 1, MSG_NOSIGNAL) == 1;
      over = !said;
    } else {
      over = true;
      if (::recv(fd.get(), &heard, 1, 0) == 1 && heard == kHere) answer = Answer::kHere;
    }
    if (over && answer != Answer::kHere) answer = Answer::kGone;
    if (over) fd.reset();
  }
};

void hold(std::vector<Talk>& talks, Word word, CallClock::time_point until) {
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Talk*> of;
    for (Talk& talk : talks)
      if (!talk.over) waiting.push_back({talk.fd.get(), talk.events(), 0}), of.push_back(&talk);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - CallClock::now());
    if (waiting.empty() || left.count() <= 0) return;
    (void)::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
    for (size_t i = 0; i < of.size(); ++i)
      if (waiting[i].revents != 0) of[i]->goOn(word);
  }
}

}  // namespace

Door::Door(Listener listener, const Address& address)
    : listener_(std::move(listener.fd)), endpoint_{address, listener.port} {}

Result<std::unique_ptr<Door>> Door::open() {
  HORING_ASSIGN(const Config config, Config::fromEnvironment());
  HORING_ASSIGN(const std::vector<tcp::Interface> all, tcp::listInterfaces());
  HORING_ASSIGN(const std::vector<tcp::Interface> chosen,
                tcp::chooseInterfaces(all, config.socket_ifname, config.socket_family));
  HORING_ASSIGN(const PortRange ports, parsePortRange(config.ports));
  HORING_ASSIGN(Listener listener, listenOn(nullptr, ports));
  std::unique_ptr<Door> door(new Door(std::move(listener), chosen.front().address.withoutScope()));
  HORING_TRY(door->thread_.start("the door of the node", [door = door.get()] { door->answer(); }));
  return door;
}

Door::~Door() {
  thread_.end([this] { is_closing_ = true; });
}

void Door::answer() {
  while (!is_closing_) {
    if (!isReady(listener_.get(), POLLIN, kLookMs)) continue;
    if (const Accepted caller = acceptNext(listener_); caller.outcome == Accepted::Outcome::kOne)
      answerOne(caller.fd);
  }
}

void Door::answerOne(const Fd& caller) {
  char word = 0;
  if (!isReady(caller.get(), POLLIN, kCallerMs) || ::recv(caller.get(), &word, 1, 0) != 1) return;
  (void)::send(caller.get(), &kHere, 1, MSG_NOSIGNAL);
  if (word == static_cast<char>(Word::kRollCall)) heard_ = true;
}

std::vector<Answer> callDoors(const std::vector<Endpoint>& doors, Word word,
                              std::chrono::milliseconds limit) {
  std::vector<Answer> answers;
  for (size_t at = 0; at < doors.size(); at += kMostCalls) {
    std::vector<Talk> talks;
    for (size_t i = at; i < std::min(doors.size(), at + kMostCalls); ++i) talks.emplace_back(doors[i]);
    hold(talks, word, CallClock::now() + limit);
    for (const Talk& talk : talks) answers.push_back(talk.answer);
  }
  return answers;
}

Status RollCall::prepare(Nodes& nodes) {
  self_ = nodes.self();
  Endpoint mine;
  if (Result<std::unique_ptr<Door>> opened = Door::open(); opened.ok()) {
    door_ = opened.take();
    mine = door_->endpoint();
  }
  HORING_ASSIGN(const std::vector<char> all, nodes.gather(&mine, sizeof mine));
  doors_.resize(static_cast<size_t>(nodes.count()));
  std::memcpy(doors_.data(), all.data(), all.size());
  std::vector<int32_t> reached(doors_.size());
  if (self_ == 0) {
    const std::vector<Answer> answers = callDoors(doors_, Word::kThere, kAnswersWithin);
    std::ranges::transform(answers, reached.begin(),
                           [](Answer answer) { return answer == Answer::kHere ? 1 : 0; });
  }
  HORING_TRY(nodes.broadcast(reached));
  for (size_t node = 0; node < doors_.size(); ++node)
    if (reached[node] == 0) doors_[node].port = 0;
  return {};
}

std::vector<Endpoint> RollCall::doorsOf(const std::vector<int>& nodes) const {
  std::vector<Endpoint> doors;
  for (const int node : nodes) doors.push_back(doors_[static_cast<size_t>(node)]);
  return doors;
}

// The best answer of lower nodes, asking node 0, 1, the next two, four: nearly all nodes have their answer from the first that runs. One that
// is not looked for may run.
Answer RollCall::below(std::chrono::milliseconds limit) const {
  Answer best = Answer::kGone;
  for (int from = 0, to = 1; from < self_; from = to, to = std::min(2 * to, self_)) {
    std::vector<int> asked;
    for (int node = from; node < to; ++node) asked.push_back(node);
    if (!std::ranges::all_of(asked, [&](int node) { return looksFor(node); })) return Answer::kHere;
    for (const Answer answer : callDoors(doorsOf(asked), Word::kThere, limit)) best = std::min(best, answer);
    if (best == Answer::kHere) break;
  }
  return best;
}

std::optional<std::vector<int>> RollCall::missing(CallClock::time_point latest) {
  if (doors_.empty()) return self_ == 0 ? std::optional(std::vector<int>()) : std::nullopt;
  const auto limit = [&] {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(latest - CallClock::now());
    return std::clamp(left, kLeastAnswer, kAnswersWithin);
  };
  const CallClock::time_point begin = CallClock::now();
  while (self_ != 0) {
    const Answer lower = looksFor(self_) ? below(limit()) : Answer::kHere;
    const CallClock::time_point now = CallClock::now();
    // Looked at last: who has made the roll call may have left since.
    if (door_ && door_->heardRollCall()) return std::nullopt;
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
  for (int node = 0; node < std::ssize(doors_); ++node)
    if (looksFor(node) && node != self_) silent.push_back(node);
  do {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - CallClock::now());
    const std::vector<Answer> answers =
        callDoors(doorsOf(silent), Word::kRollCall, std::clamp(left, kLeastAnswer, kAnswersWithin));
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
