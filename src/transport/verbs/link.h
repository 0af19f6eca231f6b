#pragma once
// A link to one peer over RDMA: slots, connections, and the paths that they share.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/transport.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/path.h"
#include "transport/verbs/region_cache.h"

namespace horing::verbs {

// A port of this rank and one of the peer's.
struct PathPlan {
  Device* device;
  size_t device_index;  // index in the region cache
  PublishedPort theirs;
  std::string name;    // "mlx5_0 port 1 -> mlx5_2 port 1"
  bool spare = false;  // carries data only when all non-spare paths are lost
};

class VerbsLink;

// How far an end has come with a link, as reported to the other end.
enum class LinkStage : uint8_t {
  kBegun,
  kGreeted,  // by kHello: its slots and queue pairs
  kReady,    // by kReady: it has a path
  kLeft,     // by kGoodbye
};

// How far an end has come with a path in its present generation (link_recovery.cpp), as reported to the other end.
enum class PathStage : uint8_t {
  kBegun,
  kOffered,  // by kHello or kAgain: how to reach its queue pair
  kOn,       // its queue pair can receive
  kBroken,   // from any other stage: it has given the path up
};
constexpr bool mayFollow(PathStage now, PathStage next) {
  if (next == PathStage::kBroken) return now != PathStage::kBroken;
  return now < PathStage::kOn && static_cast<int>(next) == static_cast<int>(now) + 1;
}

struct LinkOptions {
  int rank = 0;
  int peer = 0;
  int number = 0;
  LinkShape shape;
  std::vector<PathPlan> paths;
  // A new ID for path `index`; each generation of a path has its own, so that late completions are ignored.
  std::function<uint32_t(VerbsLink& link, size_t index)> new_path_id;
  PathTuning tuning;
  int64_t outage_ns = 0;  // how long the link may be without a path
  // Makes the replacement of this link if no path comes up; empty: that is an error.
  std::function<Result<Link*>()> instead;
  const RegionCache* regions = nullptr;
  DataMoved* moved = nullptr;  // the totals to add to
  const Clock* clock = nullptr;
  Log log = Log();
};

// Messages of a connection are spread over the paths, each to the path with the least data under way for its speed, and reordered by their
// number, which gives the slot.
//
// If a path's queue pair fails, both ends give the path up and report what they have received: lost messages are retransmitted by another
// path; they are still in their slots, since they have no credit. Without another path the link waits for one to recover
// (link_recovery.cpp), and fails if that takes too long, unless the control link reports the cause: the peer's process died, or has left.
//
// A path carries data once a first packet has arrived, since queue pairs can be connected between ports that do not reach each other. A
// path that cannot be made, or whose packets do not arrive, is given up the same way, and the link uses the others. An end is ready with at
// least one path; if one end never is, both learn that all paths are lost, and use another link `instead`.
class VerbsLink final : public Link {
 public:
  // `control` carries the control messages; it must exist as long as progress is called.
  VerbsLink(LinkOptions options, Link& control) : options_(std::move(options)), control_(control) {}
  // Makes slots and queue pairs. Once, before any other call.
  Status open();

  int peer() const override { return options_.peer; }
  int number() const override { return options_.number; }
  bool established() const override { return instead_ ? instead_->established() : ready(); }
  bool givenUp() const override { return instead_ && instead_->givenUp(); }
  bool isMending() const override {
    return instead_ ? instead_->isMending() : ready() && openPaths() == 0 && !hasLeft() && status_.ok();
  }
  bool hasUnderWay() const override { return instead_ && instead_->hasUnderWay(); }
  const Status& status() const override { return instead_ && status_.ok() ? instead_->status() : status_; }
  Sender& sender(int channel) override {
    return instead_ ? instead_->sender(channel) : channels_[static_cast<size_t>(channel)]->sender;
  }
  Receiver& receiver(int channel) override {
    return instead_ ? instead_->receiver(channel) : channels_[static_cast<size_t>(channel)]->receiver;
  }
  uint64_t memoryBytes() const override;
  std::string describe() const override;

  // --- Running.
  enum class Effort : uint8_t { kNormal, kThorough };
  // Posts waiting messages to adapters. `kThorough`: also returns all credits.
  void progress(Effort effort);
  // Whether the control transport must be driven together with this link: while it is being established, or after it was replaced.
  bool needsControl() const { return instead_ || !ready(); }
  // Processes the peer's control messages, and answers.
  void progressControl();
  // A completion on path `index`.
  void completed(size_t index, const ibv_wc& done);
  // The port is down: switches to other paths at once, without waiting for retries.
  void portFailed(const Device& device, const std::string& why);
  // Keeps the first error.
  void fail(Status status);
  // Says goodbye to a healthy peer once everything posted has arrived; call it, with progress, until it returns true.
  bool leave();

  // --- For the connections.
  const LinkShape& shape() const { return options_.shape; }
  void send(uint32_t channel, uint64_t sequence);
  void noteRelease() { credits_owed_ = true; }
  const RegionCache::Entry* lentMemory(const std::byte* memory, size_t bytes) const {
    return options_.regions->find(memory, bytes);
  }
  // Whether this rank's call lends memory.
  bool lendsMemory() const { return options_.regions->holdsAny(); }
  // Announcements do not count as data.
  DataMoved& movedBy(uint32_t channel) {
    return channel < dataChannels() ? *options_.moved : announcements_moved_;
  }
  // The peer's announcements of landings for this channel, and this end's announcements for messages that it receives.
  Receiver& announcements(uint32_t channel) { return channels_[dataChannels() + channel]->receiver; }
  Sender& landingSender(uint32_t channel) { return channels_[dataChannels() + channel]->sender; }
  std::array<uint32_t, kMaxPaths> remoteKeys(const RegionCache::Entry& region) const;
  void broken(const char* what);
  // Returns a credit at once. False: try again.
  bool returnCredit(uint32_t channel);
  // The peer has left in order; all its messages before lastMessage() were delivered.
  bool departed() const override {
    if (instead_) return instead_->departed();
    return hasLeft() || (!ready() && control_.departed());
  }
  uint64_t lastMessage(uint32_t channel) const { return goodbye_.posted[channel]; }
  void failDeparted(uint32_t channel);

 private:
  struct Channel {
    VerbsSender sender;
    VerbsReceiver receiver;
  };
  struct LinkPath {
    std::unique_ptr<Path> pair;  // null: lost, and not offered again yet
    Registration outgoing;       // memory to send from
    Registration incoming;       // memory that the peer writes
    PathHello theirs{};
    std::string why_lost;  // empty: it is not
    // Of this generation (link_recovery.cpp).
    PathStage mine = PathStage::kBegun, peers = PathStage::kBegun;
    bool proven = false;      // it carries data, while there is a pair
    int64_t on_since_ns = 0;  // at the peer
    // Of all generations.
    int losses = 0;
    int64_t lost_at_ns = 0;
    bool lost_for_good = false;  // not retried

    bool works() const { return pair && proven; }
    bool lost() const { return !why_lost.empty(); }
    bool over() const { return mine == PathStage::kBroken && peers == PathStage::kBroken; }
    // The peer has sent a message that moves it to this stage. False: its present stage does not allow that.
    bool hears(PathStage stage);
  };
  // A message that no path had room for.
  struct Waiting {
    uint32_t channel;
    uint64_t sequence;
  };
  struct FreeDelete {
    void operator()(std::byte* memory) const;
  };

  bool ready() const { return mine_ >= LinkStage::kReady && peers_ >= LinkStage::kReady; }
  // The peer has said goodbye.
  bool hasLeft() const { return peers_ == LinkStage::kLeft; }
  Status openPath(size_t index);
  uint32_t dataChannels() const { return static_cast<uint32_t>(shape().channels); }
  // For a channel, or for the announcements of its landings.
  QueueShape queueShape(uint32_t channel) const;
  // Bytes of one direction: the slots of all channels; memoryBytes: with the buffers of first packets.
  uint64_t slotBytes() const;
  uint64_t rowBytes() const { return slotBytes() + kLargestPacket; }
  bool say(ControlTag tag, std::span<const std::byte> what);
  // A control message. It may arrive while this end is at `mine` or later, and the peer from `first` to `last`; it moves the peer to `then`.
  struct Rule {
    ControlTag tag;
    LinkStage mine, first, last;
    std::optional<LinkStage> then;
    void (VerbsLink::*hear)(const Message&);
  };
  static const std::array<Rule, 6> kRules;
  void hear(const Message& message);
  void hearHello(const Message& message);
  void hearReady(const Message& message);
  void hearBroken(const Message& message);
  void hearGoodbye(const Message& message);
  void sayHello();
  void sayBroken(size_t index);
  void controlFailed();
  void arrived(const ibv_wc& done);
  // Whether a retry may succeed: not after invalid memory.
  enum class Loss : uint8_t { kOfNetwork, kForGood };
  static Loss lossOf(ibv_wc_status status);
  void giveUp(size_t index, const std::string& why, Loss loss = Loss::kOfNetwork);
  LinkPath* choosePath(uint32_t bytes);
  size_t openPaths() const;
  size_t deviceOf(const LinkPath& path) const {
    return options_.paths[static_cast<size_t>(&path - paths_.data())].device_index;
  }
  void pushWaiting();
  void pushCredits(Effort effort);
  bool pushCredit(uint32_t channel);
  bool transmit(LinkPath& path, const Waiting& message);
  void postFailed(LinkPath& path, const Status& status);
  void hearAgain(const Message& message);
  void hearOn(const Message& message);
  bool isDue(const LinkPath& path) const;
  bool isOverdue(const LinkPath& path) const;
  size_t pathsLeft() const;
  PathHello helloOf(const LinkPath& path) const;
  bool sayPath(ControlTag tag, size_t index);
  void sayAgain(size_t index);
  void progressRecovery();
  void beginGeneration(LinkPath& path);
  void offer(size_t index);
  void connectPath(size_t index);
  void prove(size_t index);
  void judgeStranded();
  bool agreedWithoutPaths() const;
  void goWithoutPaths();

  LinkOptions options_;
  Link& control_;
  Status status_;
  std::unique_ptr<std::byte[], FreeDelete> slots_;  // destroyed after its registrations
  std::vector<std::unique_ptr<Channel>> channels_;  // followed by as many for announcements
  DataMoved announcements_moved_;
  std::vector<LinkPath> paths_;
  std::vector<Waiting> waiting_;  // a ring of fixed size
  size_t waiting_first_ = 0;
  size_t waiting_count_ = 0;
  uint64_t peer_slots_ = 0;  // address at the peer
  size_t turn_ = 0;
  LinkStage mine_ = LinkStage::kBegun, peers_ = LinkStage::kBegun;
  bool credits_owed_ = false;
  Goodbye goodbye_{};         // the peer's
  std::string why_stranded_;  // why the last path was lost
  int64_t stranded_since_ns_ = 0;
  Link* instead_ = nullptr;  // a link of the control transport
};

}  // namespace horing::verbs
