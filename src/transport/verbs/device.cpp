#include "transport/verbs/device.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace horing::verbs {

namespace {

// Entries of a shared completion queue: enough for many queue pairs, and within every adapter's limit.
constexpr uint32_t kQueueEntries = 16384;

}  // namespace

Device::~Device() {
  for (const auto& queue : queues_) library_.destroyCq(queue->cq);
  if (channel_) library_.destroyChannel(channel_);
  if (pd_) library_.deallocPd(pd_);
  library_.closeDevice(context_);
}

Status Device::open() {
  ibv_device_attr facts{};
  if (const int error = library_.queryDevice(context_, &facts); error != 0)
    return systemError(error, "query %s", port_.device.c_str());
  most_entries_ = static_cast<uint32_t>(std::max(facts.max_cqe, 1));
  pd_ = library_.allocPd(context_);
  if (!pd_) return systemError(errno, "make a protection domain on %s", port_.device.c_str());
  channel_ = library_.createChannel(context_);
  if (!channel_) return systemError(errno, "make a completion channel on %s", port_.device.c_str());
  for (const int fd : {channel_->fd, context_->async_fd})
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
      return systemError(errno, "make a descriptor of %s non-blocking", port_.device.c_str());
  return {};
}

Result<CompletionQueue*> Device::reserve(uint32_t entries) {
  for (const auto& queue : queues_) {
    if (queue->free < entries) continue;
    queue->free -= entries;
    return queue.get();
  }
  const uint32_t wanted = std::max(entries, std::min(kQueueEntries, most_entries_));
  ibv_cq* const cq = library_.createCq(context_, static_cast<int>(wanted), nullptr, channel_, 0);
  if (!cq)
    return systemError(errno, "make a completion queue of %u entries on %s (it offers %u)", wanted,
                       port_.device.c_str(), most_entries_);
  queues_.push_back(std::make_unique<CompletionQueue>());
  *queues_.back() = {.cq = cq, .free = wanted - entries, .armed = false};
  return queues_.back().get();
}

void Device::arm() {
  for (const auto& queue : queues_) {
    if (queue->armed) continue;
    queue->armed = ::ibv_req_notify_cq(queue->cq, 0) == 0;
  }
}

void Device::disarm() {
  ibv_cq* rang = nullptr;
  void* context = nullptr;
  while (library_.getCqEvent(channel_, &rang, &context) == 0) {
    library_.ackCqEvents(rang, 1);
    for (const auto& queue : queues_)
      if (queue->cq == rang) queue->armed = false;
  }
}

std::string Device::takeTrouble(const Log& log) {
  std::string trouble;
  ibv_async_event event;
  while (library_.getAsyncEvent(context_, &event) == 0) {
    const bool fatal = event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_CQ_ERR;
    const bool of_port =
        (event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_PORT_ACTIVE) &&
        event.element.port_num == port_.number;
    dead_ = dead_ || fatal;
    if (of_port) port_up_ = event.event_type == IBV_EVENT_PORT_ACTIVE;
    if (fatal || (of_port && !port_up_))
      trouble = formatString("%s: %s", port_.label().c_str(), library_.eventText(event.event_type));
    log.info("verbs", "%s says: %s", port_.device.c_str(), library_.eventText(event.event_type));
    library_.ackAsyncEvent(&event);
  }
  return trouble;
}

Registration& Registration::operator=(Registration&& other) noexcept {
  if (this == &other) return *this;
  reset();
  library_ = other.library_;
  region_ = std::exchange(other.region_, nullptr);
  return *this;
}

void Registration::reset() {
  if (region_) library_->deregMr(std::exchange(region_, nullptr));
}

Result<Registration> Registration::make(Device& device, const Region& memory, int access) {
  const Library& library = device.library();
  const std::string port = device.port().label();
  Registration made;
  made.library_ = &library;
  const auto address = reinterpret_cast<uintptr_t>(memory.begin);
  const auto byAddress = [&] {
    if (!memory.ofGpu() && library.regMrIova2 && device.relaxedOrdering())
      return library.regMrIova2(device.pd(), memory.begin, memory.bytes, address,
                                static_cast<unsigned>(access | IBV_ACCESS_RELAXED_ORDERING));
    // In parentheses, since the name is a macro in the library's header.
    return (library.regMr)(device.pd(), memory.begin, memory.bytes, access);
  };
  std::string refused;
  if (memory.dmabuf >= 0 && library.regDmabufMr) {
    made.region_ =
        library.regDmabufMr(device.pd(), memory.dmabuf_offset, memory.bytes, address, memory.dmabuf, access);
    if (!made.region_) refused = " (" + systemError(errno, "as a dma-buf").message() + ")";
  } else if (memory.dmabuf >= 0) {
    refused = " (as a dma-buf: this libibverbs has no ibv_reg_dmabuf_mr)";
  }
  if (!made.region_ && memory.by_address) made.region_ = byAddress();
  if (made.region_) return made;
  const int error = errno;
  if (memory.ofGpu() && !memory.by_address)
    return makeStatus(Code::kSystemError, "register %zu bytes of a GPU with %s%s", memory.bytes, port.c_str(),
                      refused.c_str());
  if (memory.ofGpu())
    return systemError(error, "register %zu bytes of a GPU with %s%s; by nvidia-peermem, if it is loaded",
                       memory.bytes, port.c_str(), refused.c_str());
  rlimit limit{};
  if (error != ENOMEM || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return systemError(error, "register %zu bytes with %s", memory.bytes, port.c_str());
  return makeStatus(Code::kSystemError,
                    "%s may not lock %zu more bytes of memory: this process may lock %llu bytes in all; "
                    "raise the limit (ulimit -l "
                    "unlimited; memlock in /etc/security/limits.conf; LimitMEMLOCK=infinity for a service of "
                    "systemd, Slurm's slurmd "
                    "among them), or use HORING_TRANSPORTS=shm,socket",
                    port.c_str(), memory.bytes, static_cast<unsigned long long>(limit.rlim_cur));
}

}  // namespace horing::verbs
