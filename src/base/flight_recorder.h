#pragma once
// The last operations of a communicator, kept in memory for the moment when something goes wrong.
//
// Fixed size. Writing takes a few stores, no lock and no allocation, and never waits for a reader; a reader that meets a
// write in progress looks again.
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"

namespace horing {

// kWithdrawn: it was not carried out as what it was called for, and is recorded elsewhere as what was.
enum class Outcome : uint8_t { kRunning, kDone, kFailed, kWithdrawn };
const char* outcomeName(Outcome outcome);  // "running"

// In place of a count, where blocks differ in size: this bit and a digest of all sizes, or, where each rank knows only its
// own, this bit alone.
inline constexpr uint64_t kCountsDiffer = uint64_t{1} << 63;

// One operation as it was called.
struct FlightRecord {
  uint64_t sequence = 0;  // of the communicator
  uint64_t count = 0;     // elements, as given to the call, or kCountsDiffer
  int64_t begun_ns = 0;   // of the communicator's clock
  int64_t ended_ns = 0;   // 0 while it runs; of tiny ones when the clock was last looked at before
  int32_t root = 0;       // where the collective has one
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  Outcome outcome = Outcome::kRunning;
};

class FlightRecorder {
 public:
  static constexpr size_t kEntries = 128;

  // An operation begins; sequences are consecutive from 0. One thread at a time.
  void begin(const FlightRecord& record);
  // One thread at a time for each operation. One that was withdrawn stays so when it is done.
  void end(uint64_t sequence, int64_t now_ns, Outcome outcome);

  // Any thread. How many operations have begun, and have ended: of those that begun in this order all before this number.
  uint64_t begun() const {
    return begun_.load(std::memory_order_acquire);
  }  // pairs with the release in begin()
  uint64_t ended() const {
    return ended_.load(std::memory_order_acquire);
  }  // pairs with the release in end()
  // Nothing for those that have not begun, and for those that begun kEntries or more operations ago.
  std::optional<FlightRecord> find(uint64_t sequence) const;
  // Oldest first, at most kEntries.
  std::vector<FlightRecord> last() const;

 private:
  static constexpr size_t kWords = 5;
  // Written by whoever begins or ends the operation.
  struct alignas(64) Entry {
    std::atomic<uint64_t> version{0};  // odd while words are written
    std::array<std::atomic<uint64_t>, kWords> words{};
  };
  static_assert(sizeof(Entry) == 64);

  Entry& at(uint64_t sequence) { return entries_[sequence % kEntries]; }
  const Entry& at(uint64_t sequence) const { return entries_[sequence % kEntries]; }
  static void write(Entry& entry, const FlightRecord& record);

  std::atomic<uint64_t> begun_{0};
  std::atomic<uint64_t> ended_{0};
  std::array<Entry, kEntries> entries_;
};

}  // namespace horing
