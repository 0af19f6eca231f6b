#pragma once
// The latest operations of a communicator, kept in memory for error reports.
//
// Fixed size. Writing takes a few stores, no lock and no allocation, and never waits for a reader (record_entry.h).
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/record_entry.h"
#include "base/types.h"

namespace horing {

// kWithdrawn: not carried out in this form; another record has the operation that was carried out instead.
enum class Outcome : uint8_t { kRunning, kDone, kFailed, kWithdrawn };
const char* outcomeName(Outcome outcome);  // "running"

// In place of a count where blocks differ in size: this bit and a digest of all sizes, or this bit alone if each rank knows only its own
// sizes.
inline constexpr uint64_t kCountsDiffer = uint64_t{1} << 63;

// One operation.
struct FlightRecord {
  uint64_t sequence = 0;  // of the communicator
  uint64_t count = 0;     // elements, as given to the call, or kCountsDiffer
  int64_t begun_ns = 0;   // of the communicator's clock
  // 0 while it runs; for tiny operations, the latest reading of the clock before their end.
  int64_t ended_ns = 0;
  int32_t root = 0;  // if the collective has a root
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  RedOp op = RedOp::kSum;
  Outcome outcome = Outcome::kRunning;
  const char* algorithm = nullptr;  // that this call asked for, a text that stays; null: none
};

// All operations of one kind that ended well.
struct CallTotals {
  uint64_t calls = 0;
  uint64_t bytes = 0;  // as given to the calls; without those whose blocks differ in size
  int64_t inside_ns = 0;
};

class FlightRecorder {
 public:
  static constexpr size_t kEntries = 128;

  // Records the begin of an operation; sequences are consecutive from 0. One thread at a time.
  void begin(const FlightRecord& record);
  // One thread at a time for each operation. A withdrawn operation stays withdrawn when it is done.
  void end(uint64_t sequence, int64_t now_ns, Outcome outcome);

  // Any thread. begun(): the number of operations begun. ended(): all operations with a lower sequence have ended.
  uint64_t begun() const {
    return begun_.load(std::memory_order_acquire);
  }  // pairs with the release in begin()
  uint64_t ended() const {
    return ended_.load(std::memory_order_acquire);
  }  // pairs with the release in end()
  // Nothing if the operation has not begun, or began kEntries or more operations ago.
  std::optional<FlightRecord> find(uint64_t sequence) const;
  // Oldest first, at most kEntries.
  std::vector<FlightRecord> last() const;
  // Any thread. The three numbers may be of moments that are an operation apart.
  CallTotals totals(Collective collective) const;

 private:
  // sequence, count, begin, end, the rest in one word, and the algorithm.
  using Entry = RecordEntry<6>;
  static_assert(sizeof(Entry) == 64);
  // Written by whoever ends an operation: no two at a time, so that no addition needs to be atomic.
  struct Sums {
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<int64_t> inside_ns{0};
  };

  Entry& at(uint64_t sequence) { return entries_[sequence % kEntries]; }
  const Entry& at(uint64_t sequence) const { return entries_[sequence % kEntries]; }
  void addUp(const FlightRecord& record);

  std::atomic<uint64_t> begun_{0};
  std::atomic<uint64_t> ended_{0};
  std::array<Entry, kEntries> entries_;
  std::array<Sums, kCollectives> sums_;
};

}  // namespace horing
