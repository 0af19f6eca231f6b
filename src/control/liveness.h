#pragma once
// Who has not been heard for too long. No I/O, no clock.
//
// A process that computes for minutes still beats, because a thread of its own does it (control/control.cpp); one that is
// stopped, or whose machine hangs or has lost its network, does not. Its TCP connection alone would tell after half a
// minute or never. So silence of kBeatsMissed intervals is a verdict.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace horing {

// 7 beats of half a second: TCP recovers from a cable that was out for 2 s before that.
inline constexpr int64_t kBeatsMissed = 7;

class Liveness {
 public:
  // Watches a member that is to be heard every interval_ms, more than 0, from now on. Members are 0, 1, ...
  void watch(int member, int64_t interval_ms, int64_t now_ns);
  bool watches(int member) const { return inside(member) && at(member).interval_ns > 0; }
  // It said something. Members that are not watched may speak, too.
  void heard(int member, int64_t now_ns) {
    if (inside(member)) at(member).heard_ns = now_ns;
  }
  void forget(int member) {
    if (inside(member)) at(member).interval_ns = 0;
  }

  // When to look next; INT64_MAX while nobody is watched.
  int64_t nextLookNs() const { return next_look_ns_; }
  // The members whose silence is too long, and with them those that are well on the way there: a cut cable silences many,
  // and they are one verdict. Empty before nextLookNs(). To be called at least that often: a look that comes much too
  // late means that this process itself was stopped, with what the others said waiting to be read; then all are
  // given their time again.
  std::vector<int> look(int64_t now_ns);
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
