#pragma once
// One RC queue pair between this rank and a peer, through one port at each end.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "transport/verbs/device.h"
#include "transport/verbs/published.h"
#include "transport/verbs/wire.h"

namespace horing::verbs {

// How packets are sent; the same for all of a rank's queue pairs.
struct PathTuning {
  int timeout = 14;       // 4.096 us * 2^timeout until a packet is sent again
  int retries = 6;        // HORING_IB_RETRIES: 7 would mean for ever on some adapters
  int traffic_class = 0;  // HORING_IB_TC
  int service_level = 0;  // HORING_IB_SL
  int pkey_index = 0;     // HORING_IB_PKEY_INDEX
};

struct PathOptions {
  uint32_t id;        // comes back with each completion, see idOf()
  uint32_t sends;     // the most outstanding sends
  uint32_t receives;  // messages that the peer may send before this end polls
  int pkey_index;     // as in PathTuning
};

struct Piece {
  const std::byte* from = nullptr;
  uint32_t bytes = 0;
  uint32_t local_key = 0;
  bool of_gpu = false;  // only the adapter can read it
};

// A gather of local memory, written contiguously to remote memory; optionally with 32 bits of immediate data.
struct Write {
  std::array<Piece, 2> pieces{};
  uint64_t to = 0;
  uint32_t remote_key = 0;
  std::optional<uint32_t> immediate;

  uint64_t bytes() const { return uint64_t{pieces[0].bytes} + pieces[1].bytes; }
};

// A send reports its completion after kSignalEvery sends or kSignalBytes; a failed one always does.
class Path {
 public:
  static Result<std::unique_ptr<Path>> make(Device& device, const PathOptions& options);
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  // After this no packet of the peer changes memory.
  ~Path();

  uint32_t id() const { return options_.id; }
  uint32_t queuePair() const { return pair_->qp_num; }
  uint32_t firstPacket() const { return first_packet_; }
  // Connects both directions.
  Status connect(const PathHello& theirs, const PublishedPort& their_port, const PathTuning& tuning);

  // Room for a message: landing data is a separate write, and settle() needs one more.
  bool hasRoom() const { return posted_ - completed_ + 3 <= options_.sends; }
  // Requires room. The memory must not change until the peer's credit.
  Status post(const Write& write);
  // settled(): all sends are known to be complete. settle(): requests a completion, after which they are.
  Status settle();
  // A write whose completion proves that the peer's end works.
  Status probe(const Write& write) { return post(write, true); }
  ibv_mtu mtu() const { return mtu_; }  // of both ends, once connected
  bool settled() const { return posted_ == completed_; }
  // Given to it, and not known to have arrived at the peer's adapter.
  uint64_t bytesUnderWay() const { return posted_bytes_ - completed_bytes_; }

  // --- Completions.
  static uint32_t idOf(const ibv_wc& done) { return static_cast<uint32_t>(done.wr_id >> 32); }
  static bool received(const ibv_wc& done) { return (done.wr_id & kReceived) != 0; }
  void sendDone(const ibv_wc& done);
  // A message has arrived; reposts a receive.
  Status receiveDone();

 private:
  static constexpr uint64_t kReceived = uint64_t{1} << 31;
  static constexpr uint32_t kCounterMask = kReceived - 1;
  static constexpr uint32_t kSignalEvery = 16;
  static constexpr uint64_t kSignalBytes = 64 << 10;
  static constexpr uint32_t kReceiveBatch = 16;

  Path(Device& device, const PathOptions& options) : device_(device), options_(options) {}
  Status open();
  Status toInit();
  Status postReceives(uint32_t count);
  Status post(const Write& write, bool signalled);
  uint32_t entries() const { return options_.sends + options_.receives + kReceiveBatch; }

  Device& device_;
  PathOptions options_;
  ibv_mtu mtu_ = IBV_MTU_256;
  CompletionQueue* queue_ = nullptr;
  ibv_qp* pair_ = nullptr;
  uint32_t inline_bytes_ = 0;
  uint32_t first_packet_ = 0;
  uint32_t posted_ = 0;
  uint32_t completed_ = 0;
  uint32_t unsignalled_ = 0;
  uint64_t unsignalled_bytes_ = 0;
  std::vector<uint64_t>
      bytes_until_;  // by send, of as many as may be outstanding: its bytes and those before
  uint64_t posted_bytes_ = 0;
  uint64_t completed_bytes_ = 0;
  uint32_t receives_owed_ = 0;
  std::array<ibv_recv_wr, kReceiveBatch> receives_{};
};

}  // namespace horing::verbs
