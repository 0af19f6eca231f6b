#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "targets.h"
#include "transport/shm/layout.h"
#include "transport/shm/shm_transport.h"
#include "transport/slots/slot_connection.h"

namespace horing::fuzz {

namespace {

constexpr LinkShape kShape{1, 2, 64};

// A folder of shared memory for this process, gone with it.
class Folder {
 public:
  Folder() {
    char path[] = "/dev/shm/horing-fuzz-XXXXXX";
    HORING_CHECK(::mkdtemp(path) != nullptr);
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Writes over every file of the folder whose name ends in `suffix`: what a peer might have made.
void overwrite(const std::string& folder, std::string_view stem, const std::string& suffix, size_t at,
               Bytes bytes) {
  const std::string path = folder + "/" + std::string(stem) + suffix;
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.valid()) [[maybe_unused]]
    const ssize_t put = ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
}

// One rank's use of a link whose other end writes anything.
void use(Link& link) {
  if (!link.established() || !link.status().ok()) return;
  if (link.sender(0).tryAcquire(kWholeSlot)) link.sender(0).post(64, 1);
  if (const Message* message = link.receiver(0).tryPeek()) {
    HORING_CHECK_LE(message->bytes, kShape.slot_bytes);
    const std::vector<std::byte> copy(message->data, message->data + message->bytes);
    if (!copy.empty()) link.receiver(0).release();
  }
}

}  // namespace

void shmAddress(Bytes bytes) {
  const auto address = decodeShmAddress(bytes);
  if (!address) return;
  const std::string stem = address->stem.data();
  HORING_CHECK(stem.find('/') == std::string::npos && stem.find('.') == std::string::npos);
  const auto again = decodeShmAddress(encodeShmAddress(*address));
  HORING_CHECK(again && encodeShmAddress(*again) == encodeShmAddress(*address));
}

// Two ranks; the input gives rank 1's files, its writes into rank 0's, and their moments.
void shmFiles(Bytes bytes) {
  static const Folder folder;
  const SteadyClock clock;
  const auto make = [&](int rank) {
    return makeShmTransport({.directory = folder.path(), .job = "f", .rank = rank, .clock = &clock}).take();
  };
  const auto honest = make(0), hostile = make(1);
  const std::string mine = decodeShmAddress(honest->address())->stem.data();
  const std::string theirs = decodeShmAddress(hostile->address())->stem.data();
  Input in(bytes);
  Link *link = nullptr, *other = nullptr;
  for (int actions = 0; !in.empty() && actions < 24; ++actions) {
    const auto action = in.number<uint8_t>();
    const size_t at = in.number<uint8_t>() * size_t{4};
    const Bytes what = action % 8 < 3 ? in.piece() : Bytes();
    if (action % 8 == 0) overwrite(folder.path(), theirs, ".rank", at, what);
    if (action % 8 == 1) overwrite(folder.path(), theirs, ".from-0-0", at, what);
    if (action % 8 == 2) overwrite(folder.path(), mine, ".from-1-0", at, what);
    if (action % 8 == 3 && !link) {
      auto made = honest->connect(1, hostile->address(), kShape, 0);
      if (made.ok()) link = made.value();
    }
    if (action % 8 == 4 && !other) {
      auto made = hostile->connect(0, honest->address(), kShape, 0);
      if (made.ok()) other = made.value();
    }
    if (action % 8 == 5) [[maybe_unused]]
      const Status status = hostile->progress();
    if (action % 8 == 6) [[maybe_unused]]
      const Status status = honest->progress();
    if (action % 8 == 7 && link) use(*link);
  }
  if (link) {
    [[maybe_unused]] const Status status = honest->progress();
    use(*link);
  }
}

// Both ends of one queue whose counter and headers change under them.
void slotQueue(Bytes bytes) {
  constexpr LinkShape kQueue{1, 4, 8192, 8};
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(128, slotQueuePitch(kQueue))), &std::free);
  Input in(bytes);
  formatSlotQueue(memory.get(), kQueue);
  const SlotQueue queue = viewSlotQueue(memory.get(), kQueue);
  DoorbellFlag flag{};
  Status error;
  std::atomic<uint32_t> departed{0};
  SlotLinkState sending(0, 1, 0, &error), receiving(1, 0, 0, &error);
  receiving.watch(&departed);
  SlotSender sender(queue, DoorbellButton(&flag, -1), &sending, 0);
  SlotReceiver receiver(queue, DoorbellButton(&flag, -1), &receiving, 0);
  for (int actions = 0; !in.empty() && actions < 200; ++actions) {
    const auto action = in.number<uint8_t>();
    auto& slot = *reinterpret_cast<SlotHeader*>(queue.slot(action / 8 % queue.all));
    if (action % 8 == 0) slot.sequence.store(in.number<uint64_t>());
    if (action % 8 == 1) queue.header->tail.store(in.number<uint64_t>());
    if (action % 8 == 2) slot.sequence.fetch_add(in.number<uint8_t>());
    if (action % 8 == 3) queue.header->tail.fetch_add(in.number<uint8_t>());
    if (action % 8 == 4 && action < 128) slot.bytes.store(in.number<uint32_t>());
    if (action % 8 == 4 && action >= 128) (action < 192 ? slot.next : slot.data).store(in.number<uint16_t>());
    if (action % 8 == 5) departed.store(1);
    if (action % 8 == 6) {
      const uint32_t length = action / 8 * 256;
      sender.roam(action < 128);
      if (std::byte* const place = sender.tryAcquire(length)) {
        std::fill_n(place, length, std::byte{1});
        sender.post(length, action);
      }
    }
    if (action % 8 == 7) {
      if (const Message* message = receiver.tryPeek()) {
        HORING_CHECK_LE(message->bytes, kQueue.slot_bytes);
        const std::vector<std::byte> copy(message->data, message->data + message->bytes);
        if (!copy.empty() || message->bytes == 0) receiver.release();
      }
    }
  }
}

}  // namespace horing::fuzz
