#include "comm/gpu/gpu_windows.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/fields.h"
#include "base/no_memory.h"
#include "cuda/ipc.h"
#include "transport/memory/segment.h"

namespace horing {

namespace {

constexpr std::chrono::milliseconds kCloseLook{1};
constexpr const char* kCallName = "horingCommWindowRegister";

// A rank's part, as others open it: the allocation that it is in.
struct PartOffer {
  bool is_shared = false;
  uint64_t offset = 0;  // of the part in the allocation
  uint64_t end = 0;
  CudaIpcHandle handle{};
  SegmentName users{};  // a PartUsers
};
void fields(auto& wire, Is<PartOffer> auto& offer) {
  auto& [is_shared, offset, end, handle, users] = offer;
  wire.numbers(is_shared, offset, end);
  wire.raw(handle);
  wire.numbers(users.id, users.bytes, users.pid, users.fd);
  wire.require(offset <= end);
}

struct PartUsers {
  std::atomic<int32_t> count;       // how many other processes' ranks have the part open
  std::atomic<uint32_t> has_ended;  // not 0: the window, on the rank whose part it is
};
static_assert(std::atomic<int32_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
// In the zeroed memory of a segment.
PartUsers& usersIn(std::byte* users) {
  return *reinterpret_cast<PartUsers*>(users);
}

}  // namespace

class OpenedParts {
 public:
  OpenedParts() = default;
  ~OpenedParts() { close(); }
  OpenedParts(const OpenedParts&) = delete;
  OpenedParts& operator=(const OpenedParts&) = delete;

  // `counts`: there are other processes.
  Result<PartOffer> share(const std::shared_ptr<const CudaDevice>& device, std::span<const std::byte> part,
                          bool counts);
  Result<std::byte*> open(const std::shared_ptr<const CudaDevice>& device, size_t rank,
                          const PartOffer& offer);
  bool isOpenElsewhere() const {
    return users_ && usersIn(users_->data()).count.load(std::memory_order_acquire) > 0;
  }
  bool hasClosed(size_t rank) const {
    return std::ranges::any_of(of_others_,
                               [&](const OfOther& each) { return each.rank == rank && !each.memory; });
  }
  void tellEnd() {
    if (users_) usersIn(users_->data()).has_ended.store(1, std::memory_order_release);
  }
  // The parts of ranks on which the window has ended.
  void closeEnded();
  void close();
  void leak();

 private:
  struct OfOther {
    size_t rank;
    std::unique_ptr<OpenedMemory> memory;  // null: closed
    std::optional<PeerSegment> users{};    // of another process, until it is closed
    void close();
  };
  std::optional<Segment> users_;
  std::unique_ptr<SharedMemory> own_;
  std::vector<OfOther> of_others_;
};

Result<PartOffer> OpenedParts::share(const std::shared_ptr<const CudaDevice>& device,
                                     std::span<const std::byte> part, bool counts) {
  const CudaApi& api = device->api();
  if (!api.address_range)
    return makeStatus(Code::kUnhandledCudaError, "this CUDA driver tells no bounds of allocations");
  CudaAddress begin = 0;
  size_t all_bytes = 0;
  {
    const CudaDevice::Current current(*device);
    HORING_TRY(api.check(api.address_range(&begin, &all_bytes, cudaAddress(part.data())),
                         "asking for the bounds of an allocation"));
  }
  const size_t offset = cudaAddress(part.data()) - begin;
  if (offset > all_bytes || part.size() > all_bytes - offset)
    return makeStatus(Code::kUnhandledCudaError, "the window is not in one allocation");
  HORING_ASSIGN(own_, SharedMemory::make(device, part.data() - offset));
  PartOffer offer{true, offset, offset + part.size(), own_->handle()};
  if (!counts) return offer;
  HORING_ASSIGN(Segment users, Segment::create(sizeof(PartUsers)));
  users_.emplace(std::move(users));
  offer.users = users_->name();
  return offer;
}

// Whatever fails, what is open stays until close(): this thread may be one that streams wait for.
Result<std::byte*> OpenedParts::open(const std::shared_ptr<const CudaDevice>& device, size_t rank,
                                     const PartOffer& offer) {
  HORING_ASSIGN(std::unique_ptr<OpenedMemory> memory, OpenedMemory::open(device, offer.handle, offer.end));
  OfOther& opened = of_others_.emplace_back(OfOther{rank, std::move(memory)});
  if (!opened.memory->isOfThisProcess()) {
    HORING_ASSIGN(PeerSegment users, PeerSegment::open(offer.users));
    if (users.name().bytes < sizeof(PartUsers))
      return makeStatus(Code::kRemoteError, "another rank shares too small a count of users");
    ++usersIn(users.data()).count;
    opened.users.emplace(std::move(users));
  }
  return opened.memory->begin() + offer.offset;
}

void OpenedParts::OfOther::close() {
  memory.reset();
  // release: the owner frees the memory behind it.
  if (users) usersIn(users->data()).count.fetch_sub(1, std::memory_order_release);
  users.reset();
}

void OpenedParts::closeEnded() {
  for (OfOther& each : of_others_)
    if (each.users && usersIn(each.users->data()).has_ended.load(std::memory_order_acquire) != 0)
      each.close();
}

void OpenedParts::close() {
  for (OfOther& each : of_others_) each.close();
  of_others_.clear();
  own_.reset();
}

void OpenedParts::leak() {
  for (OfOther& each : of_others_) {
    if (each.memory) each.memory->leak();
    each.users.reset();  // the owner never hears that it is closed
  }
}

namespace {

// Nobody can begin to use it again: who has it got it from one who had it.
bool isUsed(const std::shared_ptr<OpenedParts>& kept) {
  return kept.use_count() > 1;
}

}  // namespace

void GpuWindows::keep(std::shared_ptr<OpenedParts> parts) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(parts));
}

bool GpuWindows::hasUnused() const {
  const std::lock_guard lock(mutex_);
  return !std::ranges::all_of(kept_, isUsed);
}

bool GpuWindows::hasUnawaited() const {
  const std::lock_guard lock(mutex_);
  return !closed_.empty();
}

bool GpuWindows::isOpen(const PartsOnGpus& parts, int rank) {
  const auto& opened = *static_cast<const OpenedParts*>(parts.keeper.get());
  return !opened.hasClosed(static_cast<size_t>(rank));
}

void GpuWindows::tellUnused() {
  const std::lock_guard lock(mutex_);
  for (const auto& each : kept_)
    if (!isUsed(each)) each->tellEnd();
}

void GpuWindows::closeUnused() {
  Windows unused;
  {
    const std::lock_guard lock(mutex_);
    const auto first = std::partition(kept_.begin(), kept_.end(), isUsed);
    unused.assign(std::make_move_iterator(first), std::make_move_iterator(kept_.end()));
    kept_.erase(first, kept_.end());
  }
  for (const auto& each : unused) each->close();
  const std::lock_guard lock(mutex_);
  closed_.insert(closed_.end(), unused.begin(), unused.end());
}

void GpuWindows::closeAll() {
  Windows all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(kept_);
  }
  for (const auto& each : all) {
    each->tellEnd();
    each->close();
  }
  const std::lock_guard lock(mutex_);
  closed_.insert(closed_.end(), all.begin(), all.end());
  closed_.insert(closed_.end(), awaited_.begin(), awaited_.end());
  awaited_.clear();
}

bool GpuWindows::haveOthersClosed() {
  Windows kept;
  {
    const std::lock_guard lock(mutex_);
    if (closed_.empty()) return true;
    kept = kept_;
  }
  // First: a rank that closes this one's part in its own wait has told before what it waits for.
  for (const auto& each : kept) each->closeEnded();
  const std::lock_guard lock(mutex_);
  const auto is_closed = [](const auto& each) { return !each->isOpenElsewhere(); };
  std::erase_if(closed_, is_closed);
  std::erase_if(awaited_, is_closed);
  return closed_.empty();
}

bool GpuWindows::awaitOthers(const Deadline& deadline, const std::function<bool()>& ends) {
  bool in_time = true;
  while (!haveOthersClosed()) {
    in_time = !deadline.passed();
    if (!in_time || ends()) break;
    std::this_thread::sleep_for(kCloseLook);
  }
  const std::lock_guard lock(mutex_);
  awaited_.insert(awaited_.end(), closed_.begin(), closed_.end());
  closed_.clear();
  return in_time;
}

void GpuWindows::leak() {
  const std::lock_guard lock(mutex_);
  for (const auto& each : kept_) each->leak();
  for (Windows* const windows : {&kept_, &closed_, &awaited_}) windows->clear();
}

namespace {

// Whether it is true on all ranks.
Result<bool> onAll(Communicator& communicator, bool mine) {
  const std::byte said[] = {std::byte{mine}};
  HORING_ASSIGN(const auto all, communicator.allGather(said, kCallName));
  const std::vector<std::byte> yes = {std::byte{1}};
  return std::ranges::all_of(all, [&](const std::vector<std::byte>& each) { return each == yes; });
}

bool haveOtherProcesses(const Membership& membership) {
  const std::string own = membership.placement().identityOf(membership.rank()).processLabel();
  return !std::ranges::all_of(membership.placement().identities(),
                              [&](const HostIdentity& rank) { return rank.processLabel() == own; });
}

Result<std::vector<PartOffer>> decodeAll(const std::vector<std::vector<std::byte>>& told,
                                         std::span<const uint64_t> bytes) {
  std::vector<PartOffer> offers(told.size());
  for (size_t rank = 0; rank < told.size(); ++rank) {
    PartOffer& offer = offers[rank];
    if (!decodeFields(told[rank], offer) || !offer.is_shared)
      return makeStatus(Code::kRemoteError, "rank %zu shares none", rank);
    if (offer.end - offer.offset != bytes[rank])
      return makeStatus(Code::kRemoteError, "rank %zu shares %llu bytes instead of %llu", rank,
                        static_cast<unsigned long long>(offer.end - offer.offset),
                        static_cast<unsigned long long>(bytes[rank]));
  }
  return offers;
}

}  // namespace

Result<PartsOnGpus> openPartsOnGpus(Communicator& communicator, const OwnGpuPart& mine,
                                    const std::function<Result<GpuWindows*>()>& bind) {
  const Membership& membership = communicator.membership();
  const auto own = static_cast<size_t>(membership.rank());
  const auto tell = [&](const Status& why) {
    membership.log().info("gpu", "no window in memory of GPUs: %s", why.message().c_str());
  };
  auto parts = std::make_shared<OpenedParts>();
  PartOffer offer;
  const Status shared = withoutExceptions([&]() -> Status {
    HORING_ASSIGN(offer,
                  parts->share(mine.device, {mine.memory, mine.bytes[own]}, haveOtherProcesses(membership)));
    return {};
  });
  if (!shared.ok()) tell(shared);
  HORING_ASSIGN(const auto told, communicator.allGather(encodeFields(offer), kCallName));
  PartsOnGpus opened;
  const Status all_opened = withoutExceptions([&]() -> Status {
    HORING_ASSIGN(const std::vector<PartOffer> offers, decodeAll(told, mine.bytes));
    HORING_ASSIGN(GpuWindows* const windows, bind());
    windows->keep(parts);
    for (size_t rank = 0; rank < offers.size(); ++rank) {
      HORING_ASSIGN(std::byte* const begin,
                    rank == own ? Result(mine.memory) : parts->open(mine.device, rank, offers[rank]));
      opened.begins.push_back(begin);
    }
    return {};
  });
  if (!all_opened.ok()) tell(all_opened);
  HORING_ASSIGN(const bool have_all, onAll(communicator, all_opened.ok()));
  if (!have_all) return PartsOnGpus{};
  opened.keeper = std::move(parts);
  return opened;
}

}  // namespace horing
