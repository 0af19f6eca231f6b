#pragma once
// Everything between this rank and one peer over RDMA: slots, connections, and the paths that they share.
#include <functional>
#include <memory>
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
  size_t device_index;  // of those in the region cache
  PublishedPort theirs;
  std::string name;    // "mlx5_0 port 1 -> mlx5_2 port 1"
  bool spare = false;  // carries data only when those that are not are lost
};

class VerbsLink;

struct LinkOptions {
  int rank = 0;
  int peer = 0;
  int number = 0;
  LinkShape shape;
  std::vector<PathPlan> paths;
  // A new one for path `index`; each life of a path has its own, so that nothing late counts for the next.
  std::function<uint32_t(VerbsLink& link, size_t index)> new_path_id;
  PathTuning tuning;
  int64_t outage_ns = 0;  // how long it may be without a path
  // Makes what takes this link's place when no path comes up; empty: that is an error.
  std::function<Result<Link*>()> instead;
  const RegionCache* regions = nullptr;
  DataMoved* moved = nullptr;  // adds to it
  const Clock* clock = nullptr;
  Log log = Log();
};

// Messages of a connection are spread over the paths, each to the one that has the least under way for its speed, and put in order
// again by the slot that their number names.
//
// A path whose queue pair fails is given up by both ends, and each says what it has: what went by this path and did not arrive is
// sent again by another one; it lies in its slot still, as no credit has come for it. Without another one the link waits for one to come
// back (link_lives.cpp), and fails when that takes too long, unless the control link explains why: the peer's process died, or has left.
//
// A path carries data once a first packet has got through, for queue pairs come up between ports that do not reach each other, too. One
// that cannot be made, or leads nowhere, is given up the same way, and the link comes up on the others. An end is ready with at least
// one; where one end never is, both have heard of the loss of all paths, and use another link `instead`.
class VerbsLink final : public Link {
 public:
  // `control` carries the words; it must live as long as progress is called.
  VerbsLink(LinkOptions options, Link& control) : options_(std::move(options)), control_(control) {}
  // Makes slots and queue pairs. Once, before all else.
  Status open();

  int peer() const override { return options_.peer; }
  int number() const override { return options_.number; }
  bool established() const override { return instead_ ? instead_->established() : ready(); }
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
  // Gives adapters what waits for them. `kThorough`: leave no credit owed.
  void progress(Effort effort);
  // Whether the control transport has to be driven whenever this link is: it comes up, or another one took its place.
  bool needsControl() const { return instead_ || !ready(); }
  // Hears what the peer says, and answers.
  void progressControl();
  // Something by path `index` is done.
  void completed(size_t index, const ibv_wc& done);
  // The port is down: what another one can do shall not wait until packets have been repeated in vain.
  void portFailed(const Device& device, const std::string& why);
  // First error wins.
  void fail(Status status);
  // Takes leave of a healthy peer when everything posted is known to have arrived; to be called, with progress, until it says true.
  bool leave();

  // --- For the connections.
  const LinkShape& shape() const { return options_.shape; }
  void send(uint32_t channel, uint64_t sequence);
  void messageCredited(uint16_t path, uint32_t bytes) { paths_[path].under_way -= bytes; }
  void noteRelease() { credits_owed_ = true; }
  const RegionCache::Entry* lentMemory(const std::byte* memory, size_t bytes) const {
    return options_.regions->find(memory, bytes);
  }
  // Whether this rank's call has any.
  bool lendsMemory() const { return options_.regions->holdsAny(); }
  // Words are no data.
  DataMoved& movedBy(uint32_t channel) { return channel < dataChannels() ? *options_.moved : words_moved_; }
  // What the peer says of where messages on that channel shall land, and what this end says of those that it receives.
  Receiver& landingWords(uint32_t channel) { return channels_[dataChannels() + channel]->receiver; }
  Sender& landingSender(uint32_t channel) { return channels_[dataChannels() + channel]->sender; }
  std::array<uint32_t, kMaxPaths> remoteKeys(const RegionCache::Entry& region) const;
  void broken(const char* what);
  // At once. False: to be tried again.
  bool returnCredit(uint32_t channel);
  // The peer has left in order, and has had all before message lastMessage() delivered.
  bool departed() const override {
    if (instead_) return instead_->departed();
    return departed_ || (!ready() && control_.departed());
  }
  uint64_t lastMessage(uint32_t channel) const { return goodbye_.posted[channel]; }
  void failDeparted(uint32_t channel);

 private:
  struct Channel {
    VerbsSender sender;
    VerbsReceiver receiver;
  };
  struct LinkPath {
    std::unique_ptr<Path> pair;  // null: lost, or not offered again yet
    Registration outgoing;       // memory that is sent from
    Registration incoming;       // memory that the peer writes
    PathHello theirs{};
    uint64_t under_way = 0;  // bytes given to it and not credited yet
    std::string why_lost;    // empty: it is not
    // Of this life.
    bool proven = false;  // it carries data, while there is a pair
    bool said_broken = false;
    bool peer_gave_up = false;
    bool offered = false, heard_offer = false;  // by kHello or kAgain
    bool said_on = false, heard_on = false;
    int64_t on_since_ns = 0;  // at both ends
    // Of all.
    int losses = 0;
    int64_t lost_at_ns = 0;
    bool lost_for_good = false;  // nobody tries again

    bool works() const { return pair && proven; }
    bool lost() const { return !why_lost.empty(); }
    bool over() const { return said_broken && peer_gave_up; }  // both ends know
  };
  // Messages that no path had room for.
  struct Waiting {
    uint32_t channel;
    uint64_t sequence;
  };
  struct FreeDelete {
    void operator()(std::byte* memory) const;
  };

  bool ready() const { return said_ready_ && peer_ready_; }
  Status openPath(size_t index);
  uint32_t dataChannels() const { return static_cast<uint32_t>(shape().channels); }
  // Of a channel, or of the words about its landings.
  QueueShape queueShape(uint32_t channel) const;
  // Of one direction: the slots of all channels; and with what a first packet is sent from, and to.
  uint64_t slotBytes() const;
  uint64_t rowBytes() const { return slotBytes() + kLargestPacket; }
  bool say(Word word, std::span<const std::byte> what);
  void hear(const Message& message);
  void hearHello(const Message& message);
  void hearBroken(const Message& message);
  void hearGoodbye(const Message& message);
  void sayHello();
  void sayBroken(size_t index);
  void controlFailed();
  void arrived(const ibv_wc& done);
  // Whether another try may do better: not where memory was not what it should be.
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
  void hearAgain(const Again& said);
  void hearOn(uint32_t index);
  bool isDue(const LinkPath& path) const;
  bool isOverdue(const LinkPath& path) const;
  size_t pathsLeft() const;
  PathHello helloOf(const LinkPath& path) const;
  bool sayPath(Word word, size_t index);
  void sayAgain(size_t index);
  void progressLives();
  void beginLife(LinkPath& path);
  void offer(size_t index);
  void connectPath(size_t index);
  void prove(size_t index);
  void judgeStranded();
  bool agreedWithoutPaths() const;
  void goWithoutPaths();

  LinkOptions options_;
  Link& control_;
  Status status_;
  std::unique_ptr<std::byte[], FreeDelete> slots_;  // before the registrations of it
  std::vector<std::unique_ptr<Channel>> channels_;  // then as many for words about landings
  DataMoved words_moved_;
  std::vector<LinkPath> paths_;
  std::vector<Waiting> waiting_;  // a ring of fixed size
  size_t waiting_first_ = 0;
  size_t waiting_count_ = 0;
  uint64_t peer_slots_ = 0;  // address over there
  size_t turn_ = 0;
  bool said_hello_ = false;
  bool heard_hello_ = false;
  bool said_ready_ = false;
  bool peer_ready_ = false;
  bool credits_owed_ = false;
  bool departed_ = false;
  bool said_goodbye_ = false;
  Goodbye goodbye_{};         // the peer's
  std::string why_stranded_;  // the last path is gone, and this is why
  int64_t stranded_since_ns_ = 0;
  Link* instead_ = nullptr;  // of the control transport
};

}  // namespace horing::verbs
