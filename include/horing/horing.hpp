// horing for C++20: communicators that clean up after themselves, and calls that take ranges instead of
// pointers and counts. Everything is inline over horing.h, whose rules hold here too; link horing as
// for C.
//
//   horing::Communicator comm = horing::Communicator::fromEnvironment();
//   std::vector<float> gradients(n);
//   comm.allReduce(gradients);                               // in place, sum
//   comm.allReduce(gradients, averaged, horingAvg);
//   std::vector<float, horing::Allocator<float>> shared(n);  // read in place by the ranks of a node: faster
//
// Errors are exceptions of type horing::Error: constructors cannot return errors, a program can rarely
// continue after a failed collective, and std::expected is not part of C++20. This header throws them in the
// caller's code; none passes through the library.
//
// Elements: integers of 8, 32 and 64 bits, float, double. For other types, such as the half precision type of
// a library:
//   template <>
//   struct horing::ElementType<half> { static constexpr horingDataType_t value = horingFloat16; };
#ifndef HORING_HORING_HPP_
#define HORING_HORING_HPP_

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "horing/horing.h"

namespace horing {
// Part of every symbol, so that programs of two versions can live in one process.
inline namespace v0 {

// A result code, and the full text of horingGetLastError.
class Error : public std::runtime_error {
 public:
  Error(horingResult_t result, const std::string& text) : std::runtime_error(text), result_(result) {}
  horingResult_t result() const noexcept { return result_; }

 private:
  horingResult_t result_;
};

// Throws Error unless the call, made by this thread just now, succeeded.
inline void check(horingResult_t result) {
  if (result != horingSuccess) throw Error(result, horingGetLastError(nullptr));
}

// The horing type of an element; specialise it for types of your own.
template <typename T>
struct ElementType;

// The types of integers.
template <std::integral T>
requires(!std::same_as<T, bool> &&
         (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8)) struct ElementType<T> {
 private:
  static constexpr horingDataType_t pick(horingDataType_t with_sign, horingDataType_t without) {
    return std::is_signed_v<T> ? with_sign : without;
  }

 public:
  static constexpr horingDataType_t value = sizeof(T) == 1   ? pick(horingInt8, horingUint8)
                                            : sizeof(T) == 4 ? pick(horingInt32, horingUint32)
                                                             : pick(horingInt64, horingUint64);
};

// The types of floating point.
template <>
struct ElementType<float> {
  static constexpr horingDataType_t value = horingFloat32;
};
template <>
struct ElementType<double> {
  static constexpr horingDataType_t value = horingFloat64;
};

// A type that has a horing type.
template <typename T>
concept Element = std::convertible_to<decltype(ElementType<std::remove_cv_t<T>>::value), horingDataType_t>;

// Data to send: a vector, array, span or similar of elements.
template <typename R>
concept Buffer =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Element<std::ranges::range_value_t<R>>;

// A buffer to receive into: not const, and not a temporary that dies with the call.
template <typename R>
concept WritableBuffer = Buffer<R> && std::ranges::borrowed_range<R> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

// Two buffers of one type.
template <typename A, typename B>
concept SameElements = std::same_as<std::ranges::range_value_t<A>, std::ranges::range_value_t<B>>;

// The horing type of the elements of a buffer.
template <typename R>
inline constexpr horingDataType_t kElementType = ElementType<std::ranges::range_value_t<R>>::value;

// Lists of buffers.
template <typename L>
concept BufferList = std::ranges::input_range<const L> && Buffer<std::ranges::range_value_t<L>>;
template <typename L>
concept WritableBufferList = std::ranges::input_range<L> && WritableBuffer<std::ranges::range_reference_t<L>>;
template <typename L>
inline constexpr horingDataType_t kListType = kElementType<std::ranges::range_value_t<L>>;

// HORING_VERSION_CODE of the library that is loaded.
inline int version() {
  int code = 0;
  check(horingGetVersion(&code));
  return code;
}

// See horingGetUniqueId: call it in the process of one rank and pass the result to the others over a private
// channel.
inline horingUniqueId makeUniqueId() {
  horingUniqueId id;
  check(horingGetUniqueId(&id));
  return id;
}

// Checks a call that may return before the communicator is made.
inline void checkBegun(horingResult_t result) {
  if (result != horingInProgress) check(result);
}

// The operations that `calls` makes on this thread are launched together at its end, as between
// horingGroupStart and horingGroupEnd. An exception of `calls` passes through, and nothing is launched.
template <std::invocable Calls>
void group(Calls&& calls) {
  check(horingGroupStart());
  try {
    std::forward<Calls>(calls)();
  } catch (...) {
    (void)horingGroupDiscard();
    throw;
  }
  checkBegun(horingGroupEnd());
}

// Memory from horingMemAlloc for standard containers. All instances are equal.
template <typename T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <typename U>
  Allocator(const Allocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor): as the standard asks

  T* allocate(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    void* memory = nullptr;
    check(horingMemAlloc(&memory, count * sizeof(T)));
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { (void)horingMemFree(memory); }
  template <typename U>
  bool operator==(const Allocator<U>&) const noexcept {
    return true;
  }
};

// An in-order queue of operations; calls that are given its handle() return at once. Its destructor waits for
// them. Movable, not copyable. Any thread, except for moves.
class Stream {
 public:
  Stream() { check(horingStreamCreate(&stream_)); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_) (void)horingStreamDestroy(stream_);
  }

  horingStream_t handle() const noexcept { return stream_; }
  // Blocks until all operations are complete; throws the first error among them since the last call.
  void synchronize() { check(horingStreamSynchronize(stream_)); }
  // Whether all operations are complete; throws like synchronize().
  bool complete() {
    const horingResult_t result = horingStreamQuery(stream_);
    if (result == horingInProgress) return false;
    check(result);
    return true;
  }
  // Calls back once, when all operations issued so far are complete, with the first error among them: on a
  // thread of the library, or on this one. The callback must neither throw nor wait for operations.
  void whenComplete(std::function<void(horingResult_t)> callback) {
    auto kept = std::make_unique<std::function<void(horingResult_t)>>(std::move(callback));
    const auto call = [](horingStream_t, horingResult_t status, void* data) noexcept {
      const std::unique_ptr<std::function<void(horingResult_t)>> mine(
          static_cast<std::function<void(horingResult_t)>*>(data));
      (*mine)(status);
    };
    check(horingStreamAddCallback(stream_, call, kept.get()));
    (void)kept.release();  // the callback owns it from here on
  }

 private:
  horingStream_t stream_ = nullptr;
};

// Settings of one communicator; members that are not set are taken from the environment, or from the parent.
struct Config {
  std::optional<bool>
      blocking{};  // false: see horingCommInitRankConfig; asyncError() tells whether the communicator is made
  std::optional<int> max_ctas{};
  std::optional<int> traffic_class{};
  std::string net_name{};
  std::string name{};

  // As the C struct, which documents each field; it points to the strings of this object.
  horingConfig_t forC() const {
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    if (blocking) config.blocking = *blocking ? 1 : 0;
    if (max_ctas) config.maxCTAs = *max_ctas;
    if (traffic_class) config.trafficClass = *traffic_class;
    if (!net_name.empty()) config.netName = net_name.c_str();
    if (!name.empty()) config.commName = name.c_str();
    return config;
  }
};

// More settings of one communicator, and of communicators made from it; members that are not set are taken from the
// environment.
struct Options {
  std::optional<int> timeout_ms{};
  std::optional<int> init_timeout_ms{};
  std::optional<bool> reproducible{};
  std::optional<bool> gpu_kernels{};

  // As the C struct, which documents each field.
  horingOptions_t forC() const {
    horingOptions_t options = HORING_OPTIONS_INITIALIZER;
    if (timeout_ms) options.timeoutMs = *timeout_ms;
    if (init_timeout_ms) options.initTimeoutMs = *init_timeout_ms;
    if (reproducible) options.reproducible = *reproducible ? 1 : 0;
    if (gpu_kernels) options.gpuKernels = *gpu_kernels ? 1 : 0;
    return options;
  }
};

// One rank's handle of a communicator, released by the destructor. Movable, not copyable. Any call throws
// Error when the library reports one. Threads: rule (7) of horing.h. Not to be made inside a group: the
// library would write its handle too late.
class Communicator {
 public:
  // Rank, size and meeting point from the environment of horing-run, mpirun, srun or torchrun. Collective.
  static Communicator fromEnvironment() {
    horingComm_t comm = nullptr;
    check(horingCommInitFromEnv(&comm));
    return adopt(comm);
  }

  // All ranks of a new communicator in this process, each to be driven by a thread of its own, or all by one thread
  // that puts their calls into a group().
  static std::vector<Communicator> all(int ranks) {
    std::vector<horingComm_t> comms(ranks > 0 ? static_cast<std::size_t>(ranks) : 1);
    std::vector<Communicator> made;
    made.reserve(comms.size());
    check(horingCommInitAll(comms.data(), ranks, nullptr));
    for (horingComm_t comm : comms) made.push_back(adopt(comm));
    return made;
  }

  // Takes ownership of a communicator that a function of horing.h has made.
  static Communicator adopt(horingComm_t comm) noexcept { return Communicator(comm); }

  // Rank `rank` of `ranks` that have the same ID. Collective.
  Communicator(const horingUniqueId& id, int ranks, int rank) {
    horingComm_t comm = nullptr;
    check(horingCommInitRank(&comm, ranks, id, rank));
    comm_.store(comm, std::memory_order_release);  // pairs with the acquires of handle() and release()
  }

  // With settings. Returns at once if the config is non-blocking.
  Communicator(const horingUniqueId& id, int ranks, int rank, const Config& config,
               const Options& options = {}) {
    horingConfig_t settings = config.forC();
    const horingOptions_t more = options.forC();
    horingComm_t comm = nullptr;
    const horingResult_t result = horingCommInitRankOptions(&comm, ranks, id, rank, &settings, &more);
    checkBegun(result);
    comm_.store(comm, std::memory_order_release);  // as above
  }

  Communicator(Communicator&& other) noexcept : comm_(other.release()) {}
  Communicator& operator=(Communicator&& other) noexcept {
    if (this != &other) {
      finish();
      comm_.store(other.release(), std::memory_order_release);  // as in the constructor
    }
    return *this;
  }
  // Destroys silently; use destroy() to learn of errors.
  ~Communicator() { finish(); }

  // For functions of horing.h; this object keeps ownership. NULL after a move, destroy() or abort().
  horingComm_t handle() const noexcept { return comm_.load(std::memory_order_acquire); }
  // Gives ownership to the caller.
  [[nodiscard]] horingComm_t release() noexcept { return comm_.exchange(nullptr, std::memory_order_acq_rel); }
  explicit operator bool() const noexcept { return handle() != nullptr; }

  // The ranks of one color, ordered by key; empty (NULL) with HORING_SPLIT_NOCOLOR. Collective. As for
  // shrink(), a config may say whether to block; otherwise it blocks if this communicator did when it was
  // made.
  [[nodiscard]] Communicator split(int color, int key, const Config& config = {}) {
    horingConfig_t settings = config.forC();
    horingComm_t made = nullptr;
    checkBegun(horingCommSplit(handle(), color, key, &made, &settings));
    return adopt(made);
  }
  // The ranks that are not in the list, all of which call this. Flags: HORING_SHRINK_DEFAULT or
  // HORING_SHRINK_ABORT.
  [[nodiscard]] Communicator shrink(std::span<const int> excluded, int flags = HORING_SHRINK_DEFAULT,
                                    const Config& config = {}) {
    std::vector<int> list(excluded.begin(), excluded.end());
    horingConfig_t settings = config.forC();
    horingComm_t made = nullptr;
    checkBegun(
        horingCommShrink(handle(), list.data(), static_cast<int>(list.size()), &made, &settings, flags));
    return adopt(made);
  }
  // Waits for the operations that this rank has issued, and leaves in good order; nothing may be issued after
  // it.
  void finalize() { check(horingCommFinalize(handle())); }
  void destroy() { check(horingCommDestroy(release())); }
  // Any thread, also while another thread is in a collective, which then throws. No thread may begin another call.
  void abort() { check(horingCommAbort(release())); }

  int size() const {
    int count = 0;
    check(horingCommCount(handle(), &count));
    return count;
  }
  int rank() const {
    int rank = 0;
    check(horingCommUserRank(handle(), &rank));
    return rank;
  }
  // The number of the rank's block in `order`.
  int block(horingBlockOrder_t order, int rank) const {
    int number = 0;
    check(horingCommBlock(handle(), order, rank, &number));
    return number;
  }
  // The position of a rank: its group, and its local index there.
  struct Place {
    int group;
    int local_index;
  };
  Place placeOf(int rank) const {
    Place place{};
    check(horingCommGroup(handle(), rank, &place.group, &place.local_index));
    return place;
  }
  // The error that sticks to the communicator, horingSuccess if there is none; horingInProgress while it is
  // being made.
  horingResult_t asyncError() const {
    horingResult_t result = horingSuccess;
    check(horingCommGetAsyncError(handle(), &result));
    return result;
  }
  // The rank that caused the error; -1 if there is no error, or if it is about no single rank.
  int failedRank() const {
    int rank = -1;
    check(horingCommGetFailedRank(handle(), &rank));
    return rank;
  }
  // The GPU that the communicator works on; -1 while there is none.
  int cuDevice() const {
    int device = -1;
    check(horingCommCuDevice(handle(), &device));
    return device;
  }
  std::uint64_t memoryBytes() const {
    std::uint64_t bytes = 0;
    check(horingCommMemoryBytes(handle(), &bytes));
    return bytes;
  }
  // For humans, at most `longest` bytes.
  std::string describe(std::size_t longest = 65536) const {
    std::string text(longest, '\0');
    check(horingCommDescribe(handle(), text.data(), text.size()));
    text.resize(text.find('\0'));
    return text;
  }

  // ---- Collectives ----
  //
  // The sizes of the ranges must be as horing.h states, else Error (horingInvalidArgument). With the handle of a stream
  // the calls return at once, and the buffers must live until the stream has completed them.

  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void allReduce(const Send& send, Receive&& receive, horingRedOp_t op = horingSum,
                 horingStream_t stream = nullptr) {
    expectSize("allReduce: receive", std::ranges::size(receive), std::ranges::size(send));
    check(horingAllReduce(std::ranges::data(send), std::ranges::data(receive), std::ranges::size(send),
                          kElementType<Send>, op, handle(), stream));
  }
  // In place.
  template <WritableBuffer Both>
  void allReduce(Both&& both, horingRedOp_t op = horingSum, horingStream_t stream = nullptr) {
    allReduce(both, both, op, stream);
  }

  // send has size() blocks of receive's size.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void reduceScatter(const Send& send, Receive&& receive, horingRedOp_t op = horingSum,
                     horingStream_t stream = nullptr) {
    expectSize("reduceScatter: send", std::ranges::size(send), blocksOf(std::ranges::size(receive)));
    check(horingReduceScatter(std::ranges::data(send), std::ranges::data(receive), std::ranges::size(receive),
                              kElementType<Send>, op, handle(), stream));
  }

  // receive has size() blocks of send's size.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void allGather(const Send& send, Receive&& receive, horingStream_t stream = nullptr) {
    expectSize("allGather: receive", std::ranges::size(receive), blocksOf(std::ranges::size(send)));
    check(horingAllGather(std::ranges::data(send), std::ranges::data(receive), std::ranges::size(send),
                          kElementType<Send>, handle(), stream));
  }

  // Every rank receives the data of the root; send is used on the root only and may be empty elsewhere.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void broadcast(const Send& send, Receive&& receive, int root, horingStream_t stream = nullptr) {
    if (rank() == root) expectSize("broadcast: send", std::ranges::size(send), std::ranges::size(receive));
    check(horingBroadcast(std::ranges::data(send), std::ranges::data(receive), std::ranges::size(receive),
                          kElementType<Send>, root, handle(), stream));
  }
  // In place: sent on the root, received elsewhere.
  template <WritableBuffer Both>
  void broadcast(Both&& both, int root, horingStream_t stream = nullptr) {
    broadcast(both, both, root, stream);
  }

  // receive is used on the root only and may be empty elsewhere.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void reduce(const Send& send, Receive&& receive, int root, horingRedOp_t op = horingSum,
              horingStream_t stream = nullptr) {
    if (rank() == root) expectSize("reduce: receive", std::ranges::size(receive), std::ranges::size(send));
    check(horingReduce(std::ranges::data(send), std::ranges::data(receive), std::ranges::size(send),
                       kElementType<Send>, op, root, handle(), stream));
  }
  // In place on the root.
  template <WritableBuffer Both>
  void reduce(Both&& both, int root, horingRedOp_t op = horingSum, horingStream_t stream = nullptr) {
    reduce(both, both, root, op, stream);
  }

  // receive has size() blocks of send's size on the root, and may be empty elsewhere.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void gather(const Send& send, Receive&& receive, int root, horingStream_t stream = nullptr) {
    if (rank() == root)
      expectSize("gather: receive", std::ranges::size(receive), blocksOf(std::ranges::size(send)));
    check(horingGather(std::ranges::data(send), std::ranges::data(receive), std::ranges::size(send),
                       kElementType<Send>, root, handle(), stream));
  }

  // send has size() blocks of receive's size on the root, and may be empty elsewhere.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void scatter(const Send& send, Receive&& receive, int root, horingStream_t stream = nullptr) {
    if (rank() == root)
      expectSize("scatter: send", std::ranges::size(send), blocksOf(std::ranges::size(receive)));
    check(horingScatter(std::ranges::data(send), std::ranges::data(receive), std::ranges::size(receive),
                        kElementType<Send>, root, handle(), stream));
  }

  // Both have size() blocks; block k goes to rank k.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void allToAll(const Send& send, Receive&& receive, horingStream_t stream = nullptr) {
    const std::size_t block = std::ranges::size(send) / static_cast<std::size_t>(size());
    expectSize("allToAll: send", std::ranges::size(send), blocksOf(block));
    expectSize("allToAll: receive", std::ranges::size(receive), std::ranges::size(send));
    check(horingAlltoAll(std::ranges::data(send), std::ranges::data(receive), block, kElementType<Send>,
                         handle(), stream));
  }

  // ---- Blocks in another order: the number of rank r's block is block(order, r). ----

  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void reduceScatterOrdered(const Send& send, Receive&& receive, horingBlockOrder_t order,
                            horingRedOp_t op = horingSum, horingStream_t stream = nullptr) {
    expectSize("reduceScatterOrdered: send", std::ranges::size(send), blocksOf(std::ranges::size(receive)));
    check(horingReduceScatterOrdered(std::ranges::data(send), std::ranges::data(receive),
                                     std::ranges::size(receive), kElementType<Send>, op, order, handle(),
                                     stream));
  }

  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void allGatherOrdered(const Send& send, Receive&& receive, horingBlockOrder_t order,
                        horingStream_t stream = nullptr) {
    expectSize("allGatherOrdered: receive", std::ranges::size(receive), blocksOf(std::ranges::size(send)));
    check(horingAllGatherOrdered(std::ranges::data(send), std::ranges::data(receive), std::ranges::size(send),
                                 kElementType<Send>, order, handle(), stream));
  }

  // ---- Lists of buffers ----
  //
  // For instance std::vector<std::span<float>>: entry i of one list belongs to entry i of the other, as in the call
  // without List; small entries travel together. With a stream the lists may be destroyed at once, but not the buffers.

  template <BufferList Sends, WritableBufferList Receives>
  requires SameElements<std::ranges::range_value_t<Sends>, std::ranges::range_value_t<Receives>>
  void allReduceList(const Sends& sends, Receives&& receives, horingRedOp_t op = horingSum,
                     horingStream_t stream = nullptr) {
    const Entries entries("allReduceList", sends, receives, {1, 1});
    check(horingAllReduceList(entries.sends.data(), entries.receives.data(), entries.counts.data(),
                              entries.counts.size(), kListType<Sends>, op, handle(), stream));
  }
  // In place.
  template <WritableBufferList Both>
  void allReduceList(Both&& both, horingRedOp_t op = horingSum, horingStream_t stream = nullptr) {
    allReduceList(both, both, op, stream);
  }

  template <BufferList Sends, WritableBufferList Receives>
  requires SameElements<std::ranges::range_value_t<Sends>, std::ranges::range_value_t<Receives>>
  void reduceScatterList(const Sends& sends, Receives&& receives, horingRedOp_t op = horingSum,
                         horingStream_t stream = nullptr) {
    const Entries entries("reduceScatterList", sends, receives, {blocksOf(1), 1});
    check(horingReduceScatterList(entries.sends.data(), entries.receives.data(), entries.counts.data(),
                                  entries.counts.size(), kListType<Sends>, op, handle(), stream));
  }

  template <BufferList Sends, WritableBufferList Receives>
  requires SameElements<std::ranges::range_value_t<Sends>, std::ranges::range_value_t<Receives>>
  void allGatherList(const Sends& sends, Receives&& receives, horingStream_t stream = nullptr) {
    const Entries entries("allGatherList", sends, receives, {1, blocksOf(1)});
    check(horingAllGatherList(entries.sends.data(), entries.receives.data(), entries.counts.data(),
                              entries.counts.size(), kListType<Sends>, handle(), stream));
  }

  // ---- Blocks of different sizes ----
  //
  // Block r has counts[r] elements; the blocks follow each other, one for each rank.

  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void allGatherV(const Send& send, Receive&& receive, std::span<const std::size_t> counts,
                  horingStream_t stream = nullptr) {
    expectSize("allGatherV: receive", std::ranges::size(receive), total("allGatherV: counts", counts));
    check(horingAllGatherV(std::ranges::data(send), std::ranges::size(send), std::ranges::data(receive),
                           counts.data(), nullptr, kElementType<Send>, handle(), stream));
  }

  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void reduceScatterV(const Send& send, std::span<const std::size_t> counts, Receive&& receive,
                      horingRedOp_t op = horingSum, horingStream_t stream = nullptr) {
    expectSize("reduceScatterV: send", std::ranges::size(send), total("reduceScatterV: counts", counts));
    expectSize("reduceScatterV: receive", std::ranges::size(receive),
               counts[static_cast<std::size_t>(rank())]);
    check(horingReduceScatterV(std::ranges::data(send), counts.data(), nullptr, std::ranges::data(receive),
                               kElementType<Send>, op, handle(), stream));
  }

  // receive and counts are used on the root only and may be empty elsewhere.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void gatherV(const Send& send, Receive&& receive, std::span<const std::size_t> counts, int root,
               horingStream_t stream = nullptr) {
    if (rank() == root)
      expectSize("gatherV: receive", std::ranges::size(receive), total("gatherV: counts", counts));
    check(horingGatherV(std::ranges::data(send), std::ranges::size(send), std::ranges::data(receive),
                        counts.data(), nullptr, kElementType<Send>, root, handle(), stream));
  }

  // send and counts are used on the root only and may be empty elsewhere.
  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void scatterV(const Send& send, std::span<const std::size_t> counts, Receive&& receive, int root,
                horingStream_t stream = nullptr) {
    if (rank() == root)
      expectSize("scatterV: send", std::ranges::size(send), total("scatterV: counts", counts));
    check(horingScatterV(std::ranges::data(send), counts.data(), nullptr, std::ranges::data(receive),
                         std::ranges::size(receive), kElementType<Send>, root, handle(), stream));
  }

  template <Buffer Send, WritableBuffer Receive>
  requires SameElements<Send, Receive>
  void allToAllV(const Send& send, std::span<const std::size_t> send_counts, Receive&& receive,
                 std::span<const std::size_t> receive_counts, horingStream_t stream = nullptr) {
    expectSize("allToAllV: send", std::ranges::size(send), total("allToAllV: send_counts", send_counts));
    expectSize("allToAllV: receive", std::ranges::size(receive),
               total("allToAllV: receive_counts", receive_counts));
    check(horingAlltoAllV(std::ranges::data(send), send_counts.data(), nullptr, std::ranges::data(receive),
                          receive_counts.data(), nullptr, kElementType<Send>, handle(), stream));
  }

  // ---- Messages between two ranks; messages that need each other belong in a group(). ----

  template <Buffer Send>
  void send(const Send& send, int peer, horingStream_t stream = nullptr) {
    check(horingSend(std::ranges::data(send), std::ranges::size(send), kElementType<Send>, peer, handle(),
                     stream));
  }
  template <WritableBuffer Receive>
  void receive(Receive&& receive, int peer, horingStream_t stream = nullptr) {
    check(horingRecv(std::ranges::data(receive), std::ranges::size(receive), kElementType<Receive>, peer,
                     handle(), stream));
  }

 private:
  explicit Communicator(horingComm_t comm) noexcept : comm_(comm) {}

  // A communicator that is still being made can only be aborted.
  void finish() noexcept {
    const horingComm_t comm = release();
    if (!comm) return;
    horingResult_t state = horingSuccess;
    (void)horingCommGetAsyncError(comm, &state);
    (void)(state == horingInProgress ? horingCommAbort(comm) : horingCommDestroy(comm));
  }

  // The arrays that the C functions take for lists.
  struct Entries {
    // The arrays for one entry.
    struct Blocks {
      std::size_t sent, received;
    };
    template <typename Sends, typename Receives>
    Entries(const std::string& call, const Sends& from, Receives& to, Blocks blocks) {
      for (auto&& one : from) {
        sends.push_back(std::ranges::data(one));
        counts.push_back(std::ranges::size(one) / blocks.sent);
        expectSize((call + ": an entry of send").c_str(), std::ranges::size(one),
                   counts.back() * blocks.sent);
      }
      for (auto&& one : to) {
        if (const std::size_t entry = receives.size(); entry < counts.size())
          expectSize((call + ": an entry of receive").c_str(), std::ranges::size(one),
                     counts[entry] * blocks.received);
        receives.push_back(std::ranges::data(one));
      }
      expectSize((call + ": receives").c_str(), receives.size(), sends.size());
    }
    std::vector<const void*> sends;
    std::vector<void*> receives;
    std::vector<std::size_t> counts;
  };

  std::size_t blocksOf(std::size_t elements) const { return elements * static_cast<std::size_t>(size()); }

  // The size of all blocks, of which there must be one for each rank.
  std::size_t total(const char* what, std::span<const std::size_t> counts) const {
    expectSize(what, counts.size(), blocksOf(1));
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }

  static void expectSize(const char* what, std::size_t actual, std::size_t expected) {
    if (actual != expected)
      throw Error(horingInvalidArgument, std::string(horingGetErrorString(horingInvalidArgument)) + ": " +
                                             what + " has " + std::to_string(actual) +
                                             " elements, expected " + std::to_string(expected));
  }

  std::atomic<horingComm_t> comm_{nullptr};
};

// An operation of one communicator: the sum of all inputs, each multiplied by its rank's scalar. Destroy it
// before the communicator.
class PreMulSum {
 public:
  template <typename T>
  requires Element<T> PreMulSum(const Communicator& comm, T scalar) : comm_(comm.handle()) {
    check(horingRedOpCreatePreMulSum(&op_, &scalar, ElementType<T>::value, horingScalarHostImmediate, comm_));
  }
  PreMulSum(const PreMulSum&) = delete;
  PreMulSum& operator=(const PreMulSum&) = delete;
  ~PreMulSum() { (void)horingRedOpDestroy(op_, comm_); }

  horingRedOp_t op() const noexcept { return op_; }

 private:
  horingComm_t comm_;
  horingRedOp_t op_ = horingSum;
};

// Registers a buffer for use with a communicator. Destroy it before the communicator.
class Registration {
 public:
  template <Buffer Range>
  Registration(const Communicator& comm, const Range& buffer) : comm_(comm.handle()) {
    // The C function takes a pointer to non-const, but writes nothing here.
    void* const memory = const_cast<void*>(static_cast<const void*>(std::ranges::data(buffer)));
    check(horingCommRegister(
        comm_, memory, std::ranges::size(buffer) * sizeof(std::ranges::range_value_t<Range>), &handle_));
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() { (void)horingCommDeregister(comm_, handle_); }

  // Whether the buffer is served in place: memory of horing::Allocator, or comm has RDMA.
  bool isReadInPlace() const noexcept { return handle_ != nullptr; }

 private:
  horingComm_t comm_;
  void* handle_ = nullptr;
};

}  // namespace v0
}  // namespace horing

#endif  // HORING_HORING_HPP_
