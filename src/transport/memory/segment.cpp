#include "transport/memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/output.h"

namespace horing {
namespace {

// MADV_COLLAPSE of Linux 6.1, which older headers lack; older kernels refuse it.
constexpr int kCollapse = 25;
// Of a processor, for one huge page: what the small pages in its place would take. Where a hypervisor has taken free memory back, or the
// kernel must move pages to make room, a huge page takes several times as long.
constexpr int64_t kMostNsPerHugePage = 1'000'000;
constexpr uint64_t kPortionBytes = 8 * kHugePageBytes;
// Mapping small pages takes as long as allocating them. Longer segments are mapped as they are touched, as malloc()'s memory is.
constexpr uint64_t kMostBytesMappedAtOnce = uint64_t{128} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

std::string nameOf(uint64_t id) {
  return formatString("horing-%016" PRIx64, id);
}

uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

uint64_t machineBytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Reserves whole pages of address space, aligned to a huge page if they are that long.
Result<std::byte*> reserve(uint64_t bytes) {
  const uint64_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* found = ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return systemError(errno, "reserving addresses for %" PRIu64 " bytes", bytes);
  auto* const begin = static_cast<std::byte*>(found);
  if (slack == 0) return begin;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uint64_t before = roundUp(address, kHugePageBytes) - address;
  if (before > 0) ::munmap(begin, before);
  if (slack > before) ::munmap(begin + before + bytes, slack - before);
  return begin + before;
}

// Maps the first `bytes` of `fd`, aligned to kHugePageBytes if that long, so that huge pages are mapped as such.
Result<Mapping> mapSegment(int fd, uint64_t bytes) {
  HORING_ASSIGN(std::byte* const place, reserve(bytes));
  Mapping mapping(place, bytes);
  if (::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
    return systemError(errno, "mapping %" PRIu64 " bytes of shared memory", bytes);
  if (bytes >= kHugePageBytes) ::madvise(place, bytes, MADV_HUGEPAGE);
  return mapping;
}

int64_t processorNs() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * INT64_C(1'000'000'000) + time.tv_nsec;
}

// An errno, or 0. Never writes to a page that the machine does not have.
int allocatePages(int fd, uint64_t at, uint64_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(bytes));
  return error;
}

// Allocates whole huge pages, as long as they do not take longer than small ones: a core that reads several inputs at once spends much
// time in TLB misses.
void allocateHugePages(int fd, const Mapping& mapping) {
  const uint64_t whole = mapping.bytes() / kHugePageBytes * kHugePageBytes;
  int64_t left_ns = kMostNsPerHugePage;
  for (uint64_t at = 0; at < whole && left_ns > 0; at += kPortionBytes) {
    const uint64_t end = std::min(at + kPortionBytes, whole);
    const int64_t begun_ns = processorNs();
    // A huge page is made of what is there of it, so one page of each is enough; made of whole ones, it would be copied.
    for (uint64_t beginning = at; beginning < end; beginning += kHugePageBytes)
      if (allocatePages(fd, beginning, 1) != 0) return;
    if (::madvise(mapping.data() + at, end - at, kCollapse) != 0) return;
    left_ns +=
        static_cast<int64_t>((end - at) / kHugePageBytes) * kMostNsPerHugePage - (processorNs() - begun_ns);
  }
}

SegmentTail& tailOf(const Mapping& map, uint64_t bytes) {
  return *reinterpret_cast<SegmentTail*>(map.data() + roundUp(bytes, kSegmentPageBytes));
}

uint64_t fileBytes(uint64_t bytes) {
  return roundUp(bytes, kSegmentPageBytes) + kSegmentPageBytes;
}

Status notReached(const SegmentName& name, const char* why) {
  return makeStatus(Code::kRemoteError,
                    "the memory %s of process %d (%" PRIu64 " bytes) cannot be reached: %s",
                    nameOf(name.id).c_str(), name.pid, name.bytes, why);
}

// Checks the link before opening it: a wrong or stale number may name a device, or an unrelated file.
bool leadsTo(const std::string& path, uint64_t id) {
  char target[64];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  return length > 0 &&
         std::string(target, static_cast<size_t>(length)) == "/memfd:" + nameOf(id) + " (deleted)";
}

}  // namespace

Result<Segment> Segment::create(uint64_t bytes) {
  if (bytes == 0 || bytes > machineBytes())
    return makeStatus(Code::kInvalidArgument,
                      "%" PRIu64 " bytes of shared memory: 1 to %" PRIu64 " are possible on this machine",
                      bytes, machineBytes());
  SegmentName name;
  name.bytes = bytes;
  name.pid = ::getpid();
  while (name.id == 0)
    if (::getrandom(&name.id, sizeof name.id, 0) != sizeof name.id)
      return systemError(errno, "drawing the name of shared memory");
  Fd fd(::memfd_create(nameOf(name.id).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid())
    return systemError(
        errno, "making shared memory of %" PRIu64 " bytes (each allocation takes a descriptor)", bytes);
  name.fd = fd.get();
  const NoWriteSignals quiet;
  if (::ftruncate(fd.get(), static_cast<off_t>(fileBytes(bytes))) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0)
    return systemError(errno, "giving shared memory a size of %" PRIu64 " bytes", bytes);
  HORING_ASSIGN(Mapping map, mapSegment(fd.get(), fileBytes(bytes)));
  allocateHugePages(fd.get(), map);
  if (const int error = allocatePages(fd.get(), 0, fileBytes(bytes)); error != 0)
    return systemError(error, "allocating %" PRIu64 " bytes of shared memory", bytes);
  if (map.bytes() <= kMostBytesMappedAtOnce) map.populate();
  new (&tailOf(map, bytes)) SegmentTail{};
  return Segment(name, std::move(fd), std::move(map));
}

Segment::~Segment() {
  // Moved from, or in a forked child, whose parent still uses the pages.
  if (map_.data() == nullptr || ::getpid() != name_.pid) return;
  // release: pairs with the acquire in PeerSegment::freed().
  tailOf(map_, name_.bytes).freed.store(1, std::memory_order_release);
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
              static_cast<off_t>(roundUp(name_.bytes, kSegmentPageBytes)));
}

bool Segment::contains(const void* begin, uint64_t bytes) const {
  const auto from = reinterpret_cast<uintptr_t>(begin), first = reinterpret_cast<uintptr_t>(data());
  return from >= first && bytes <= name_.bytes && from - first <= name_.bytes - bytes;
}

Status Segment::cutOff(void* begin, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<uintptr_t>(begin);
  const uint64_t first = roundUp(from, page), end = (from + bytes) / page * page;
  is_cut_ = true;
  if (first >= end) return {};
  std::byte* const pages = static_cast<std::byte*>(begin) + (first - from);
  void* const copy = ::mmap(nullptr, end - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    return systemError(errno, "no memory to take %" PRIu64 " bytes from peers that may write them",
                       end - first);
  std::memcpy(copy, pages, end - first);
  if (::mremap(copy, end - first, end - first, MREMAP_MAYMOVE | MREMAP_FIXED, pages) != MAP_FAILED) return {};
  const int error = errno;
  ::munmap(copy, end - first);
  return systemError(error, "taking %" PRIu64 " bytes from peers that may write them", end - first);
}

Result<PeerSegment> PeerSegment::open(const SegmentName& name) {
  if (name.id == 0 || name.pid <= 0 || name.fd < 0 || name.bytes == 0 || name.bytes > machineBytes())
    return notReached(name, "that is no name of such memory");
  const std::string path = formatString("/proc/%d/fd/%d", name.pid, name.fd);
  if (!leadsTo(path, name.id)) return notReached(name, "it is not there, or of another user");
  const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return systemError(errno, "opening the memory of process %d, %s", name.pid, path.c_str());
  struct stat facts {};
  if (!leadsTo(formatString("/proc/self/fd/%d", fd.get()), name.id) || ::fstat(fd.get(), &facts) != 0 ||
      static_cast<uint64_t>(facts.st_size) != fileBytes(name.bytes) ||
      (::fcntl(fd.get(), F_GET_SEALS) & kSeals) != kSeals)
    return notReached(name, "it differs from its owner's description");
  HORING_ASSIGN(Mapping map, mapSegment(fd.get(), fileBytes(name.bytes)));
  if (map.bytes() <= kMostBytesMappedAtOnce) map.populate();
  return PeerSegment(name, std::move(map));
}

bool PeerSegment::freed() const {
  // acquire: pairs with the release in ~Segment().
  return tailOf(map_, name_.bytes).freed.load(std::memory_order_acquire) != 0;
}

}  // namespace horing
