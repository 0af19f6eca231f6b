#pragma once
// An open RDMA device of this rank, and its port and address.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "transport/lent_memory.h"
#include "transport/transport.h"
#include "transport/verbs/library.h"
#include "transport/verbs/subnet.h"

namespace horing::verbs {

// One row of a port's GID table.
struct GidEntry {
  enum class Kind : uint8_t { kInfiniband, kRoce1, kRoce2 };
  int index = 0;
  ibv_gid gid{};
  Kind kind = Kind::kInfiniband;
};

// "RoCE v2".
const char* kindName(GidEntry::Kind kind);

// The row to use: `wanted`, if not negative; else RoCE v2 before v1, IPv4 before IPv6, link-local addresses last. An error lists the
// existing rows. `port`: for messages.
Result<GidEntry> chooseGid(std::span<const GidEntry> table, int wanted, const std::string& port);

// A port of a device: a value.
struct Port {
  std::string device;
  int number = 1;
  bool infiniband = false;
  bool needs_grh = false;  // for InfiniBand: packets need a global routing header
  ibv_mtu mtu = IBV_MTU_1024;
  uint16_t lid = 0;
  uint32_t mbps = 0;
  GidEntry gid;
  Subnet subnet;     // for RoCE
  bool near = true;  // among the nearest to this rank

  std::string label() const { return device + " port " + std::to_string(number); }
};

// A completion queue that several queue pairs share.
struct CompletionQueue {
  ibv_cq* cq = nullptr;
  uint32_t free = 0;  // entries not reserved for a queue pair
  bool armed = false;
};

// An open device with one of its ports. A resource: destroy its queue pairs and registrations first.
class Device {
 public:
  Device(const Library& library, Port port, ibv_context* context, bool relaxed_ordering) noexcept
      : library_(library), port_(std::move(port)), context_(context), relaxed_ordering_(relaxed_ordering) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  // Call before port() is used.
  void describeAs(Port port) { port_ = std::move(port); }
  Status open();

  const Library& library() const { return library_; }
  const Port& port() const { return port_; }
  ibv_pd* pd() const { return pd_; }
  // Whether its writes into host memory may be reordered.
  bool relaxedOrdering() const { return relaxed_ordering_; }
  // Becomes readable when an armed queue has a completion.
  int completionFd() const { return channel_->fd; }
  int asyncFd() const { return context_->async_fd; }

  // A queue with room for this many outstanding completions; return them with `free += entries`.
  Result<CompletionQueue*> reserve(uint32_t entries);
  // Polls completions. Returns their number.
  template <typename Action>
  int poll(const Action& action);
  // The next completion makes completionFd() readable.
  void arm();
  // Drains the event.
  void disarm();
  // A fatal event of the port or the device since the last call, as text; "": none.
  std::string takeTrouble(const Log& log);
  // According to takeTrouble().
  bool portUp() const { return port_up_ && !dead_; }
  // Permanent: posted work does not even complete with an error any more.
  bool dead() const { return dead_; }

 private:
  static constexpr int kBatch = 32;
  static constexpr int kMostBatches = 16;

  Library library_;
  Port port_;
  ibv_context* context_;
  bool relaxed_ordering_;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  uint32_t most_entries_ = 0;
  bool port_up_ = true;
  bool dead_ = false;
  std::vector<std::unique_ptr<CompletionQueue>> queues_;
};

template <typename Action>
int Device::poll(const Action& action) {
  int total = 0;
  ibv_wc done[kBatch];
  for (size_t i = 0; i < queues_.size(); ++i) {
    int count = kBatch;
    for (int batch = 0; batch < kMostBatches && count == kBatch; ++batch) {
      count = ::ibv_poll_cq(queues_[i]->cq, kBatch, done);
      for (int n = 0; n < count; ++n) action(done[n]);
      total += count > 0 ? count : 0;
    }
  }
  return total;
}

struct DeviceWish {
  std::string devices;           // as HORING_IB_HCA
  int gid_index = -1;            // as HORING_IB_GID_INDEX
  bool relaxed_ordering = true;  // as HORING_IB_RELAXED_ORDERING
  std::map<std::string, int> distance =
      {};  // of devices from this rank; unknown for devices that are not listed
};

struct OpenDevices {
  std::vector<std::unique_ptr<Device>> devices;
  std::string left_out;  // unusable ports, with reasons
  Status wrong_setting;  // the first port that only a setting makes unusable
};

// Opens every selected port that is up, at most `most`, nearest first. An error lists the ports and the reasons why none is usable.
Result<OpenDevices> openDevices(const Library& library, const DeviceWish& wish, size_t most);

// Memory that the device may read, and peers may write if `access` says so. Memory and device must outlive it.
class Registration {
 public:
  Registration() = default;
  Registration(Registration&& other) noexcept
      : library_(other.library_), region_(std::exchange(other.region_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept;
  ~Registration() { reset(); }

  // If locked memory is limited, the error names the limit and how to raise it. Host memory is registered with relaxed ordering (it is read
  // only after a completion, which orders all earlier writes), GPU memory without.
  static Result<Registration> make(Device& device, const Region& memory, int access);

  bool valid() const { return region_ != nullptr; }
  uint32_t localKey() const { return region_->lkey; }
  uint32_t remoteKey() const { return region_->rkey; }

 private:
  void reset();

  const Library* library_ = nullptr;
  ibv_mr* region_ = nullptr;
};

}  // namespace horing::verbs
