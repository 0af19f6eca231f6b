#include "verbs_fake.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <span>

#include "base/check.h"

namespace horing::testing {

namespace {

struct Context {
  ibv_context base{};
  FakeDevice* device = nullptr;
  bool dead = false;
  std::deque<ibv_event_type> events;
};
struct Queue {
  ibv_cq base{};
  std::deque<ibv_wc> done;
  bool armed = false;
};
struct Channel {
  ibv_comp_channel base{};
  std::deque<Queue*> rang;
};
struct Registered {
  ibv_mr base{};
  int access = 0;
  std::byte* data = nullptr;         // where its bytes are
  std::span<std::byte> mapped = {};  // for it alone
  std::byte* at(uint64_t address) const { return data + (address - reinterpret_cast<uintptr_t>(base.addr)); }
};
struct Pair {
  ibv_qp base{};
  uint32_t peer = 0;
  uint32_t most_inline = 0;
  bool has_grh = false;
  std::deque<uint64_t> receives;
};
// A write that its device has not sent yet.
struct Held {
  ibv_qp* qp;
  ibv_send_wr request;
  std::vector<ibv_sge> pieces;
  std::vector<std::byte> data;  // of an inline one
};

// Objects made by the library begin with the struct of the library's header.
template <typename Fake, typename Real>
Fake& fake(Real* real) {
  return *reinterpret_cast<Fake*>(real);
}

}  // namespace

struct FakeVerbs::Machine {
  std::mutex mutex;  // of all below: ranks may be threads
  std::vector<FakeDevice> devices;
  std::vector<ibv_device> found;
  std::set<int> pulled;
  std::set<Context*> contexts;
  std::map<uint32_t, Pair*> pairs;
  std::map<uint32_t, Registered*> regions;
  std::map<const FakeDevice*, std::deque<Held>> held;
  std::function<std::byte*(const void* address)> find_gpu_memory;
  int fork_inits = 0;
  int others = 0;  // of queues, channels and protection domains
  uint32_t next = 100;
  verbs::Library library;

  static Machine* current;

  FakeDevice& of(const ibv_device* device) { return devices[static_cast<size_t>(device - found.data())]; }
  bool reaches(const FakeDevice& a, const FakeDevice& b) const {
    return a.wire == b.wire && !pulled.contains(a.wire);
  }
  Registered* region(uint32_t key, uint64_t address, uint64_t bytes, int access) const {
    const auto it = regions.find(key);
    if (it == regions.end() || (it->second->access & access) != access) return nullptr;
    const auto begin = reinterpret_cast<uintptr_t>(it->second->base.addr);
    const bool inside = address >= begin && bytes <= it->second->base.length &&
                        address - begin <= it->second->base.length - bytes;
    return inside ? it->second : nullptr;
  }
  ibv_mr* enlist(ibv_pd* pd, const Registered& registered) {
    auto* const made = new Registered(registered);
    made->base.context = pd->context;
    made->base.pd = pd;
    made->base.lkey = made->base.rkey = next++;
    regions[made->base.rkey] = made;
    return &made->base;
  }
  void bind();
  ibv_wc_status write(Pair& pair, const ibv_send_wr& request);
  void send(ibv_qp* qp, const ibv_send_wr& request);
  void hold(ibv_qp* qp, const ibv_send_wr& request);
  static void complete(ibv_cq* cq, const ibv_wc& done);
};

FakeVerbs::Machine* FakeVerbs::Machine::current = nullptr;

void FakeVerbs::Machine::complete(ibv_cq* cq, const ibv_wc& done) {
  Queue& queue = fake<Queue>(cq);
  queue.done.push_back(done);
  HORING_CHECK_LE(queue.done.size(), static_cast<size_t>(cq->cqe));
  if (!queue.armed) return;
  queue.armed = false;
  fake<Channel>(cq->channel).rang.push_back(&queue);
  ::eventfd_write(cq->channel->fd, 1);
}

// At once, whole and in order: what an adapter may do.
ibv_wc_status FakeVerbs::Machine::write(Pair& pair, const ibv_send_wr& request) {
  if (pair.base.state != IBV_QPS_RTS) return IBV_WC_WR_FLUSH_ERR;
  FakeDevice& mine = *fake<Context>(pair.base.context).device;
  const auto there = pairs.find(pair.peer);
  if (there == pairs.end() || there->second->base.state < IBV_QPS_RTR ||
      there->second->base.state > IBV_QPS_RTS)
    return IBV_WC_RETRY_EXC_ERR;
  const Context& theirs = fake<Context>(there->second->base.context);
  const bool has_address = pair.has_grh || (!mine.needs_grh && !theirs.device->needs_grh);
  uint64_t size = 0;
  for (int i = 0; i < request.num_sge; ++i) size += request.sg_list[i].length;
  if (theirs.dead || !has_address || size > theirs.device->lets_through || !reaches(mine, *theirs.device))
    return IBV_WC_RETRY_EXC_ERR;
  Pair& peer = *there->second;
  uint32_t bytes = 0;
  for (const ibv_sge& piece : std::span(request.sg_list, static_cast<size_t>(request.num_sge))) {
    const bool is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;  // read by the host
    const Registered* const from = is_inline ? nullptr : region(piece.lkey, piece.addr, piece.length, 0);
    if (!from && !is_inline) return IBV_WC_LOC_PROT_ERR;
    const uint64_t to = request.wr.rdma.remote_addr + bytes;
    const Registered* const into = region(request.wr.rdma.rkey, to, piece.length, IBV_ACCESS_REMOTE_WRITE);
    if (!into) return IBV_WC_REM_ACCESS_ERR;
    std::memcpy(into->at(to),
                is_inline ? reinterpret_cast<const std::byte*>(piece.addr) : from->at(piece.addr),
                piece.length);
    bytes += piece.length;
  }
  if (request.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) return IBV_WC_SUCCESS;
  mine.bytes_sent += bytes;
  if (peer.receives.empty()) return IBV_WC_RNR_RETRY_EXC_ERR;
  ibv_wc done{};
  done.wr_id = peer.receives.front();
  done.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  done.byte_len = bytes;
  done.imm_data = request.imm_data;
  done.wc_flags = IBV_WC_WITH_IMM;
  peer.receives.pop_front();
  complete(peer.base.recv_cq, done);
  return IBV_WC_SUCCESS;
}

void FakeVerbs::Machine::send(ibv_qp* qp, const ibv_send_wr& request) {
  ibv_wc done{};
  done.status = write(fake<Pair>(qp), request);
  done.wr_id = request.wr_id;
  done.opcode = IBV_WC_RDMA_WRITE;
  if (done.status != IBV_WC_SUCCESS) qp->state = IBV_QPS_ERR;
  if (done.status != IBV_WC_SUCCESS || (request.send_flags & IBV_SEND_SIGNALED) != 0)
    complete(qp->send_cq, done);
}

// Inline data is the device's own from now on.
void FakeVerbs::Machine::hold(ibv_qp* qp, const ibv_send_wr& request) {
  Held& one = held[fake<Context>(qp->context).device].emplace_back(Held{qp, request, {}, {}});
  const std::span<const ibv_sge> pieces(request.sg_list, static_cast<size_t>(request.num_sge));
  one.pieces.assign(pieces.begin(), pieces.end());
  if ((request.send_flags & IBV_SEND_INLINE) == 0) return;
  for (const ibv_sge& piece : pieces) {
    const auto* const data = reinterpret_cast<const std::byte*>(piece.addr);
    one.data.insert(one.data.end(), data, data + piece.length);
  }
  const std::byte* place = one.data.data();
  for (ibv_sge& piece : one.pieces) piece.addr = reinterpret_cast<uintptr_t>(place), place += piece.length;
}

namespace {

int postSend(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** refused) {
  const std::lock_guard<std::mutex> lock(FakeVerbs::Machine::current->mutex);
  for (ibv_send_wr* request = requests; request; request = request->next) {
    *refused = request;
    if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR) return EINVAL;
    if (fake<Context>(qp->context).dead) continue;
    uint64_t bytes = 0;
    for (int i = 0; i < request->num_sge; ++i) bytes += request->sg_list[i].length;
    if ((request->send_flags & IBV_SEND_INLINE) != 0 && bytes > fake<Pair>(qp).most_inline) return EINVAL;
    if (fake<Context>(qp->context).device->holds)
      FakeVerbs::Machine::current->hold(qp, *request);
    else
      FakeVerbs::Machine::current->send(qp, *request);
  }
  return 0;
}
int postReceive(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr**) {
  const std::lock_guard<std::mutex> lock(FakeVerbs::Machine::current->mutex);
  for (; requests; requests = requests->next) fake<Pair>(qp).receives.push_back(requests->wr_id);
  return 0;
}
int pollQueue(ibv_cq* cq, int most, ibv_wc* into) {
  const std::lock_guard<std::mutex> lock(FakeVerbs::Machine::current->mutex);
  Queue& queue = fake<Queue>(cq);
  int count = 0;
  for (; count < most && !queue.done.empty(); queue.done.pop_front()) into[count++] = queue.done.front();
  return count;
}
int arm(ibv_cq* cq, int) {
  const std::lock_guard<std::mutex> lock(FakeVerbs::Machine::current->mutex);
  fake<Queue>(cq).armed = true;
  return 0;
}

}  // namespace

// The functions know no object, hence `current`.
void FakeVerbs::Machine::bind() {
  library.forkInit = [] {
    const std::lock_guard<std::mutex> lock(current->mutex);
    HORING_CHECK(current->contexts.empty() || current->fork_inits > 0);
    ++current->fork_inits;
    return 0;
  };
  library.getDeviceList = [](int* count) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    auto& all = current->found;
    auto** const list = new ibv_device*[all.size() + 1]();
    for (size_t i = 0; i < all.size(); ++i) {
      // Set once only, since other ranks read their lists.
      if (current->of(&all[i]).foreign) all[i].transport_type = IBV_TRANSPORT_UNSPECIFIED;
      list[i] = &all[i];
    }
    *count = static_cast<int>(all.size());
    return list;
  };
  library.freeDeviceList = [](ibv_device** list) { delete[] list; };
  library.deviceName = [](ibv_device* device) { return current->of(device).name.c_str(); };
  library.openDevice = [](ibv_device* device) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    if (!current->of(device).opens) return static_cast<ibv_context*>(nullptr);
    auto* const made = new Context;
    made->device = &current->of(device);
    made->base.device = device;
    made->base.async_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->base.ops.post_send = postSend;
    made->base.ops.post_recv = postReceive;
    made->base.ops.poll_cq = pollQueue;
    made->base.ops.req_notify_cq = arm;
    current->contexts.insert(made);
    return &made->base;
  };
  library.closeDevice = [](ibv_context* context) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    current->contexts.erase(&fake<Context>(context));
    ::close(context->async_fd);
    delete &fake<Context>(context);
    return 0;
  };
  library.queryDevice = [](ibv_context*, ibv_device_attr* facts) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    facts->phys_port_cnt = 1;
    facts->max_cqe = 1 << 20;
    return 0;
  };
  library.queryPort = [](ibv_context* context, uint8_t, _compat_ibv_port_attr* into) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    const FakeDevice& device = *fake<Context>(context).device;
    auto& facts = *reinterpret_cast<ibv_port_attr*>(into);
    facts.state = device.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    facts.link_layer = device.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    facts.active_mtu = device.mtu;
    if (device.needs_grh) facts.flags = IBV_QPF_GRH_REQUIRED;
    facts.lid = 7;
    facts.gid_tbl_len = 1;
    facts.active_width = 1;
    facts.active_speed = device.gbits == 25 ? 32 : device.gbits == 50 ? 64 : 128;
    if (device.gbits == 200) facts.active_width = 16;
    return 0;
  };
  library.queryGid = [](ibv_context* context, uint8_t, int, ibv_gid* gid) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    *gid = fake<Context>(context).device->gid;
    return 0;
  };
  library.allocPd = [](ibv_context* context) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    ++current->others;
    return new ibv_pd{context, 0};
  };
  library.deallocPd = [](ibv_pd* pd) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    --current->others;
    delete pd;
    return 0;
  };
  library.regMr = [](ibv_pd* pd, void* memory, size_t bytes, int access) -> ibv_mr* {
    const std::lock_guard<std::mutex> lock(current->mutex);
    if (!fake<Context>(pd->context).device->registers) {
      errno = ENOMEM;
      return nullptr;
    }
    std::byte* data = current->find_gpu_memory ? current->find_gpu_memory(memory) : nullptr;
    if (!data) data = static_cast<std::byte*>(memory);
    return current->enlist(pd, {.base = {.addr = memory, .length = bytes}, .access = access, .data = data});
  };
  library.regMrIova2 = [](ibv_pd* pd, void* memory, size_t bytes, uint64_t, unsigned access) -> ibv_mr* {
    ibv_mr* const made = (current->library.regMr)(pd, memory, bytes, static_cast<int>(access));
    const std::lock_guard<std::mutex> lock(current->mutex);
    if (made && (access & IBV_ACCESS_RELAXED_ORDERING) != 0) ++fake<Context>(pd->context).device->relaxed;
    return made;
  };
  // Takes the dma-buf for files of pages (FakeGpuMemory).
  library.regDmabufMr = [](ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t address, int fd,
                           int access) -> ibv_mr* {
    const std::lock_guard<std::mutex> lock(current->mutex);
    if (!fake<Context>(pd->context).device->dmabufs) {
      errno = EOPNOTSUPP;
      return nullptr;
    }
    void* const mapped = ::mmap(nullptr, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* const data = static_cast<std::byte*>(mapped);
    return current->enlist(pd, {.base = {.addr = reinterpret_cast<void*>(address), .length = bytes},
                                .access = access,
                                .data = data + offset,
                                .mapped = {data, offset + bytes}});
  };
  library.deregMr = [](ibv_mr* region) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    current->regions.erase(region->rkey);
    const std::span<std::byte> mapped = fake<Registered>(region).mapped;
    if (!mapped.empty()) ::munmap(mapped.data(), mapped.size());
    delete &fake<Registered>(region);
    return 0;
  };
  library.createChannel = [](ibv_context* context) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    ++current->others;
    auto* const made = new Channel;
    made->base = {.context = context, .fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .refcnt = 0};
    return &made->base;
  };
  library.destroyChannel = [](ibv_comp_channel* channel) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    --current->others;
    ::close(channel->fd);
    delete &fake<Channel>(channel);
    return 0;
  };
  library.createCq = [](ibv_context* context, int entries, void*, ibv_comp_channel* channel, int) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    ++current->others;
    auto* const made = new Queue;
    made->base.context = context;
    made->base.channel = channel;
    made->base.cqe = entries;
    return &made->base;
  };
  library.destroyCq = [](ibv_cq* cq) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    --current->others;
    delete &fake<Queue>(cq);
    return 0;
  };
  library.getCqEvent = [](ibv_comp_channel* channel, ibv_cq** cq, void**) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    auto& rang = fake<Channel>(channel).rang;
    eventfd_t ignored = 0;
    if (rang.empty()) return ::eventfd_read(channel->fd, &ignored), -1;
    *cq = &rang.front()->base;
    rang.pop_front();
    return 0;
  };
  library.ackCqEvents = [](ibv_cq*, unsigned) {};
  library.createQp = [](ibv_pd* pd, ibv_qp_init_attr* wanted) -> ibv_qp* {
    const std::lock_guard<std::mutex> lock(current->mutex);
    if (wanted->cap.max_inline_data > fake<Context>(pd->context).device->most_inline)
      return nullptr;  // and no errno
    auto* const made = new Pair;
    made->most_inline = wanted->cap.max_inline_data;
    made->base.context = pd->context;
    made->base.pd = pd;
    made->base.send_cq = wanted->send_cq;
    made->base.recv_cq = wanted->recv_cq;
    made->base.qp_num = current->next++;
    current->pairs[made->base.qp_num] = made;
    return &made->base;
  };
  library.modifyQp = [](ibv_qp* qp, ibv_qp_attr* attributes, int) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    FakeDevice& mine = *fake<Context>(qp->context).device;
    if (attributes->qp_state == IBV_QPS_INIT) mine.pkey_index = attributes->pkey_index;
    if (attributes->qp_state == IBV_QPS_RTR) {
      const auto peer = current->pairs.find(attributes->dest_qp_num);
      // As the kernel looks for a route of RoCE. InfiniBand has none to look for.
      if (!mine.infiniband &&
          (!mine.active || (peer != current->pairs.end() &&
                            mine.wire != fake<Context>(peer->second->base.context).device->wire)))
        return ENETUNREACH;
      fake<Pair>(qp).has_grh = attributes->ah_attr.is_global != 0;
      fake<Pair>(qp).peer = attributes->dest_qp_num;
      mine.path_mtu = attributes->path_mtu;
    }
    qp->state = attributes->qp_state;
    return 0;
  };
  library.destroyQp = [](ibv_qp* qp) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    current->pairs.erase(qp->qp_num);
    for (auto& [device, writes] : current->held)
      std::erase_if(writes, [&](const Held& one) { return one.qp == qp; });
    delete &fake<Pair>(qp);
    return 0;
  };
  library.getAsyncEvent = [](ibv_context* context, ibv_async_event* event) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    auto& events = fake<Context>(context).events;
    eventfd_t ignored = 0;
    if (events.empty()) return ::eventfd_read(context->async_fd, &ignored), -1;
    event->event_type = events.front();
    event->element.port_num = 1;
    events.pop_front();
    return 0;
  };
  library.ackAsyncEvent = [](ibv_async_event*) {};
  library.statusText = [](ibv_wc_status status) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "error";
  };
  library.eventText = [](ibv_event_type type) {
    const std::lock_guard<std::mutex> lock(current->mutex);
    return type == IBV_EVENT_PORT_ERR       ? "port error"
           : type == IBV_EVENT_DEVICE_FATAL ? "local catastrophic error"
                                            : "port active";
  };
}

FakeGpuMemory::FakeGpuMemory(size_t bytes, size_t skipped)
    : bytes_(bytes), skipped_(skipped), fd_(::memfd_create("memory of a GPU", MFD_CLOEXEC)) {
  HORING_CHECK_EQ(::ftruncate(fd_, static_cast<off_t>(skipped + bytes)), 0);
  const auto map = [&](int protection) {
    void* const mapped = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd_, static_cast<off_t>(skipped));
    HORING_CHECK(mapped != MAP_FAILED);
    return static_cast<std::byte*>(mapped);
  };
  begin_ = map(PROT_NONE);
  data_ = map(PROT_READ | PROT_WRITE);
}

FakeGpuMemory::~FakeGpuMemory() {
  ::munmap(begin_, bytes_);
  ::munmap(data_, bytes_);
  ::close(fd_);
}

ibv_gid fakeGid(int subnet, int host) {
  ibv_gid gid{};
  const uint8_t last[6] = {0xff, 0xff, 10, 99, static_cast<uint8_t>(subnet), static_cast<uint8_t>(host)};
  std::memcpy(gid.raw + 10, last, sizeof last);
  return gid;
}

FakeVerbs::FakeVerbs(std::vector<FakeDevice> devices) : machine_(std::make_unique<Machine>()) {
  HORING_CHECK(Machine::current == nullptr);
  Machine::current = machine_.get();
  machine_->devices = std::move(devices);
  machine_->found.resize(machine_->devices.size());
  for (size_t i = 0; i < machine_->devices.size(); ++i)
    std::snprintf(machine_->found[i].dev_name, sizeof machine_->found[i].dev_name, "%s",
                  machine_->devices[i].name.c_str());
  machine_->bind();
}

FakeVerbs::~FakeVerbs() {
  HORING_CHECK_EQ(resources(), 0);
  Machine::current = nullptr;
}

const verbs::Library& FakeVerbs::library() const {
  return machine_->library;
}

void FakeVerbs::findGpuMemory(std::function<std::byte*(const void* address)> find) {
  const std::lock_guard<std::mutex> lock(machine_->mutex);
  machine_->find_gpu_memory = std::move(find);
}

FakeDevice& FakeVerbs::device(const std::string& name) {
  const auto it = std::find_if(machine_->devices.begin(), machine_->devices.end(),
                               [&](const FakeDevice& device) { return device.name == name; });
  HORING_CHECK(it != machine_->devices.end());
  return *it;
}

void FakeVerbs::pull(int wire, Pull how) {
  const std::lock_guard<std::mutex> lock(machine_->mutex);
  machine_->pulled.insert(wire);
  if (how == Pull::kSilently) return;
  for (FakeDevice& device : machine_->devices) device.active = device.active && device.wire != wire;
  for (Context* const context : machine_->contexts) {
    if (context->device->wire != wire) continue;
    context->events.push_back(IBV_EVENT_PORT_ERR);
    ::eventfd_write(context->base.async_fd, 1);
  }
}

void FakeVerbs::plug(int wire) {
  const std::lock_guard<std::mutex> lock(machine_->mutex);
  machine_->pulled.erase(wire);
  for (FakeDevice& device : machine_->devices) device.active = device.active || device.wire == wire;
  for (Context* const context : machine_->contexts) {
    if (context->device->wire != wire) continue;
    context->events.push_back(IBV_EVENT_PORT_ACTIVE);
    ::eventfd_write(context->base.async_fd, 1);
  }
}

void FakeVerbs::letGo(const std::string& name, int writes) {
  const std::lock_guard<std::mutex> lock(machine_->mutex);
  std::deque<Held>& held = machine_->held[&device(name)];
  for (; writes > 0 && !held.empty(); held.pop_front(), --writes) {
    held.front().request.sg_list = held.front().pieces.data();
    machine_->send(held.front().qp, held.front().request);
  }
}

void FakeVerbs::unplug(const std::string& name) {
  device(name).lets_through = 0;
  const std::lock_guard<std::mutex> lock(machine_->mutex);
  for (Context* const context : machine_->contexts) {
    if (context->device->name != name) continue;
    context->device->active = false;
    context->events.push_back(IBV_EVENT_PORT_ERR);
    ::eventfd_write(context->base.async_fd, 1);
  }
}

void FakeVerbs::kill(const std::string& name, Death how) {
  const std::lock_guard<std::mutex> lock(machine_->mutex);
  for (Context* const context : machine_->contexts) {
    if (context->device->name != name) continue;
    context->dead = true;
    if (how == Death::kSilent) continue;
    context->events.push_back(IBV_EVENT_DEVICE_FATAL);
    ::eventfd_write(context->base.async_fd, 1);
  }
}

int FakeVerbs::forkInits() const {
  const std::lock_guard<std::mutex> lock(machine_->mutex);
  return machine_->fork_inits;
}

int FakeVerbs::resources() const {
  const std::lock_guard<std::mutex> lock(machine_->mutex);
  return machine_->others +
         static_cast<int>(machine_->contexts.size() + machine_->pairs.size() + machine_->regions.size());
}

}  // namespace horing::testing
