#pragma once
// The thread of a rendezvous: its connections and their deadlines. control/rendezvous.h decides what their messages mean.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/listener.h"
#include "base/service_thread.h"
#include "base/strangers.h"
#include "base/waking_clock.h"
#include "base/watch.h"
#include "control/control_channel.h"
#include "control/control_journal.h"
#include "control/control_messages.h"
#include "control/liveness.h"
#include "control/rendezvous.h"
#include "control/root_service.h"

namespace horing {

struct RootClient {
  enum class State : uint8_t {
    kStranger,  // has not proved the key or introduced itself yet
    kJoined,    // is rank `rank`
    kRefused,   // has been sent the reason; waits for the other end to close
  };

  RootClient(Fd fd, const Key& key, Endpoint from)
      : channel(std::move(fd), key, HandshakeRole::kAcceptor, maxRankMessageBytes()), peer(from) {}
  ~RootClient() {
    if (watch) watch->remove(channel.fd());
  }

  ControlChannel channel;
  Endpoint peer;
  State state = State::kStranger;
  int rank = -1;
  Watch* watch = nullptr;  // the watch of its connection
};

// The state of a rank from its arrival until it leaves or is lost.
struct RootSession {
  ReturnSecret secret;
  ControlJournal journal;
  int fd = -1;                         // of its client; -1: its connection broke
  int64_t missed_from_ns = INT64_MAX;  // when it is lost unless it returns
  std::string why_broken;
};

// Addresses to listen on: of the rendezvous, and for ranks that return.
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
        proof_timeout_ms_(options.proof_timeout_ms),
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
  using Session = RootSession;

  void run();
  void loop();
  void readAll(int64_t now_ns);
  int64_t turn(int wait_ms);
  bool over(int64_t now_ns);
  int waitMs(int64_t now_ns) const;
  StrangerActions actions(int64_t now_ns);
  void acceptArrivals(int64_t now_ns);
  void welcomeStranger(Fd fd, const Endpoint& from, int64_t now_ns);
  bool keepSpare();
  void lackDescriptors(int64_t now_ns, int error_number);
  void serve(int fd, int64_t now_ns);
  Status handle(Client& client, std::span<const std::byte> message, int64_t now_ns);
  // Of a rank that has joined on this connection.
  Status handleJoined(Client& client, RankMessage message, int64_t now_ns);
  Status handleGoodbye(Client& client);
  Status handleHello(Client& client, const HelloMessage& hello, int64_t now_ns);
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
  void answerPings(const std::map<int, uint64_t>& asked);
  void listenForReturns();
  void stopListening();
  void deliver(std::span<const SharedMessage> messages);
  void close();
  void hangUp();

  Log log_;
  std::optional<int64_t> idle_timeout_ms_;
  int64_t proof_timeout_ms_;
  std::optional<Address> address_;
  uint16_t port_;
  Listener listener_;  // for arrivals; once all have arrived, for ranks that return
  Listener returns_;
  Key key_;
  UniqueId id_;

  // Used by the thread only.
  SteadyClock steady_;
  WakingClock clock_{steady_};    // a rank's deadline does not pass while this process is stopped
  std::unique_ptr<Watch> watch_;  // woken by the destructor
  Rendezvous rendezvous_;
  Liveness liveness_;
  std::unordered_map<int, std::unique_ptr<Client>> clients_;  // by file descriptor
  Strangers strangers_{proof_timeout_ms_};  // connections that have not introduced themselves
  Strangers refused_{proof_timeout_ms_};    // get the same time to read the reason
  std::map<int, Session> sessions_;         // by rank
  std::map<int, uint64_t> pings_;           // by rank, not yet answered
  int away_ = 0;                            // sessions without a connection
  int64_t begun_ns_ = 0;
  int64_t failed_ns_ = 0;
  int64_t accept_again_ns_ = 0;  // 0: accepting

  Fd spare_;  // see keepSpare()
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  bool finished_ = false;  // guarded by mutex_
  ServiceThread thread_;
};

}  // namespace horing
