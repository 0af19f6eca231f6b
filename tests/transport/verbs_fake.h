#pragma once
// libibverbs as far as horing uses it, in memory: queue pairs whose writes really land, on devices with wires that can be pulled, speeds
// that differ and limits that are too low. For what the virtual machine with soft-RoCE cannot show, and for sanitizers and fuzzing.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/lent_memory.h"
#include "transport/transport.h"
#include "transport/verbs/library.h"

namespace horing::testing {

// With one port, connected to a wire.
struct FakeDevice {
  std::string name;
  int wire = 0;
  bool opens = true;
  bool active = true;
  bool infiniband = false;
  bool foreign = false;            // EFA: of another transport
  bool needs_grh = false;          // packets without it are lost
  size_t lets_through = SIZE_MAX;  // bytes of a write, on the way to it
  bool holds = false;              // what it sends, until letGo()
  ibv_mtu mtu = IBV_MTU_4096;
  int gbits = 100;        // 25, 50, 100 or 200
  ibv_gid gid{};          // the only row of its table
  bool registers = true;  // false: memory may not be locked
  bool dmabufs = true;    // false: it takes no memory of GPUs
  uint32_t most_inline = 256;
  uint64_t bytes_sent = 0;  // by writes with immediate data that arrived
  ibv_mtu path_mtu{};       // of the queue pair that was connected last
  int pkey_index = -1;      // the same
  int relaxed = 0;          // registrations that may be written in any order
};

// 10.99.<subnet>.<host>, as RoCE has it.
ibv_gid fakeGid(int subnet, int host);

// Memory like a GPU's: host accesses crash; devices with its dma-buf registered can access it. A resource.
class FakeGpuMemory {
 public:
  // Whole pages. `skipped` bytes of the dma-buf come before.
  explicit FakeGpuMemory(size_t bytes, size_t skipped = 0);
  FakeGpuMemory(const FakeGpuMemory&) = delete;
  FakeGpuMemory& operator=(const FakeGpuMemory&) = delete;
  ~FakeGpuMemory();

  Region region(uint64_t id) const {
    return {id, begin_, bytes_, MemoryOf::kGpu, /*by_address=*/false, fd_, skipped_};
  }
  std::byte* begin() const { return begin_; }  // as devices know it
  std::byte* data() const { return data_; }    // the same, for tests

 private:
  size_t bytes_;
  size_t skipped_;
  int fd_;
  std::byte* begin_;
  std::byte* data_;
};

// There is one at a time; all that is made of its library must be gone before it.
class FakeVerbs {
 public:
  explicit FakeVerbs(std::vector<FakeDevice> devices);
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;
  ~FakeVerbs();

  const verbs::Library& library() const;
  // As with nvidia-peermem: gives the place of GPU memory that a device registers by its address; null: it is not GPU memory.
  void findGpuMemory(std::function<std::byte*(const void* address)> find);
  FakeDevice& device(const std::string& name);
  // No packet gets through; `silently`: and no port shows it. Packets posted before have arrived.
  enum class Pull : uint8_t { kPortsDown, kSilently };
  void pull(int wire, Pull how = Pull::kPortsDown);
  void plug(int wire);
  // The device sends this many of the writes that it holds, the oldest first, or all that there are.
  void letGo(const std::string& name, int writes);
  // That port alone is down.
  void unplug(const std::string& name);
  // From now on the device reports nothing more, except that once, or not even that.
  enum class Death : uint8_t { kTold, kSilent };
  void kill(const std::string& name, Death how = Death::kTold);
  int forkInits() const;
  // Queue pairs, registrations, queues, channels, protection domains and contexts that have not been given back.
  int resources() const;

  struct Machine;

 private:
  std::unique_ptr<Machine> machine_;
};

}  // namespace horing::testing
