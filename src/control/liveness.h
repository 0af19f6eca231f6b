#pragma once
// Detects members that have been silent for too long. No I/O, no clock.
//
// A process that computes for minutes still sends heartbeats, from a thread (control/control.cpp); a process that is stopped, or
// whose machine hangs or has lost its network, does not. TCP alone would notice that after half a minute or never. So silence of
// kBeatsMissed intervals is a verdict.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace horing {

// 7 beats of half a second: TCP recovers from an outage of 2 s before that.
inline constexpr int64_t kBeatsMissed = 7;

class Liveness {
 public:
  // Watches from now on a member that sends a heartbeat every interval_ms > 0. Members are 0, 1, ...
  void watch(int member, int64_t interval_ms, int64_t now_ns);
  bool watches(int member) const { return inside(member) && at(member).interval_ns > 0; }
  // A message of the member arrived. Unwatched members may send, too.
  void heard(int member, int64_t now_ns) {
    if (inside(member)) at(member).heard_ns = now_ns;
  }
  void forget(int member) {
    if (inside(member)) at(member).interval_ns = 0;
  }

  // Time of the next look; INT64_MAX while no member is watched.
  int64_t nextLookNs() const { return next_look_ns_; }
  // The members that have been silent too long, and with them members that are close to it: a cut cable silences many, and they
  // make one verdict. Empty before nextLookNs(). Call this at least that often: a call that comes much too late means that this
  // process itself was stopped and messages wait to be read; then all members get their full time again.
  std::vector<int> look(int64_t now_ns);
  // How long a watched member has been silent; of others 0.
  int64_t silenceNs(int member, int64_t now_ns) const {
    return watches(member) ? now_ns - at(member).heard_ns : 0;
  }
  // How long a member may be silent, in milliseconds.
  int64_t patienceMs(int member) const { return at(member).interval_ns * kBeatsMissed / 1'000'000; }

 private:
  struct Member {
    int64_t interval_ns = 0;  // 0: not watched
    int64_t heard_ns = 0;
  };
  bool inside(int member) const { return static_cast<size_t>(member) < members_.size(); }
  Member& at(int member) { return members_[static_cast<size_t>(member)]; }
  const Member& at(int member) const { return members_[static_cast<size_t>(member)]; }

  std::vector<Member> members_;
  int64_t next_look_ns_ = INT64_MAX;
};

}  // namespace horing
