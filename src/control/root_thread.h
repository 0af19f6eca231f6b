#pragma once
// The thread of a rendezvous: its connections and their deadlines. What they say is decided by control/rendezvous.h.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/listener.h"
#include "base/service_thread.h"
#include "base/waking_clock.h"
#include "control/control_channel.h"
#include "control/control_journal.h"
#include "control/control_messages.h"
#include "control/liveness.h"
#include "control/rendezvous.h"
#include "control/root_service.h"

namespace horing {

struct RootClient {
  enum class State : uint8_t {
    kStranger,  // has not proved the key, or not yet said who it is
    kJoined,    // is rank `rank`
    kRefused,   // has been told why; waits to be closed by the other end
  };

  RootClient(Fd fd, const Key& key, Endpoint from)
      : channel(std::move(fd), key, HandshakeRole::kAcceptor, maxRankMessageBytes()), peer(from) {}

  ControlChannel channel;
  Endpoint peer;
  State state = State::kStranger;
  int rank = -1;
  int64_t deadline_ns = 0;  // of strangers and refused ones
  bool watching_writes = false;
};

// What is remembered of a rank from its arrival to its goodbye or its loss.
struct RootSeat {
  ReturnSecret secret;
  ControlJournal journal;
  int fd = -1;                         // of its client; -1: its connection broke
  int64_t missed_from_ns = INT64_MAX;  // when it is lost unless it returns
  std::string why_broken;
};

// Where to listen: the address and port of the rendezvous, and those for ranks that return.
struct RootListening {
  Listener arrivals;
  Listener returns;  // none where connections cannot break
  std::optional<Address> address;
};

class RootThread final : public RootService {
 public:
  RootThread(const RootOptions& options, RootListening listening, const UniqueIdParts& parts, UniqueId id)
      : log_(options.log),
        idle_timeout_ms_(options.idle_timeout_ms),
        handshake_timeout_ms_(options.handshake_timeout_ms),
        address_(listening.address),
        port_(listening.arrivals.port),
        listener_(std::move(listening.arrivals)),
        returns_(std::move(listening.returns)),
        key_(jobKey(parts, "control")),
        id_(id),
        rendezvous_(thisProcess(), returns_.fd.valid() ? returns_.port : uint16_t{0}) {}
  ~RootThread() override;

  Status begin();
  const UniqueId& id() const override { return id_; }
  uint16_t port() const override { return port_; }
  bool finished() const override { return waitFinished(0); }
  bool failed() const override { return rendezvous_.failed(); }
  bool isOfParent() const override { return thread_.isOfParent(); }
  bool waitFinished(int64_t timeout_ms) const override;

 private:
  using Client = RootClient;
  using Seat = RootSeat;

  void run();
  void loop();
  int64_t turn(int wait_ms);
  bool over(int64_t now_ns);
  int waitMs(int64_t now_ns) const;
  void acceptAll(int64_t now_ns);
  void welcomeStranger(Fd fd, const Endpoint& from, int64_t now_ns);
  void makeRoom(int64_t now_ns);
  bool keepSpare();
  void lackDescriptors(int64_t now_ns, int error_number);
  void serve(int fd, int64_t now_ns);
  Status handle(Client& client, std::span<const std::byte> message, int64_t now_ns);
  Status handleHello(Client& client, const RankMessage& message, int64_t now_ns);
  void refuse(Client& client, const Status& why, int64_t now_ns);
  void drop(int fd, const Status& why);
  Status handleReturn(Client& client, const ReturnMessage& message, int64_t now_ns);
  bool mayReturn(const Client& client) const;
  void missThoseWhoStayAway(int64_t now_ns);
  void listenAgain();
  void watchWrites(Client& client);
  void expire(int64_t now_ns);
  void judgeSilence(int64_t now_ns);
  Status answerBeat(Client& client, const BeatMessage& beat, int64_t now_ns);
  void answerPings();
  void listenForReturns();
  void stopListening();
  void deliver(std::span<const SharedMessage> messages);
  void close();
  void hangUp();
  void setDeadline(Client& client, int64_t now_ns);
  void clearDeadline(Client& client);

  Log log_;
  std::optional<int64_t> idle_timeout_ms_;
  int64_t handshake_timeout_ms_;
  std::optional<Address> address_;
  uint16_t port_;
  Listener listener_;  // for arrivals, until all have come; then for those who return, if they may
  Listener returns_;
  Key key_;
  UniqueId id_;

  // Of the thread.
  SteadyClock steady_;
  WakingClock clock_{steady_};  // no deadline of a rank passes while this process is stopped
  Fd epoll_;
  Rendezvous rendezvous_;
  Liveness liveness_;
  std::unordered_map<int, std::unique_ptr<Client>> clients_;  // by file descriptor
  std::set<std::pair<int64_t, int>> deadlines_;               // (time, file descriptor)
  std::map<int, Seat> seats_;                                 // by rank
  std::map<int, uint64_t> pings_;                             // by rank, not yet answered
  int away_ = 0;                                              // seats without a connection
  int strangers_ = 0;
  int64_t begun_ns_ = 0;
  int64_t failed_ns_ = 0;
  int64_t accept_again_ns_ = 0;  // 0: accepting

  Fd wake_;   // written by the destructor
  Fd spare_;  // see keepSpare()
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  bool finished_ = false;  // guarded by mutex_
  ServiceThread thread_;
};

}  // namespace horing
