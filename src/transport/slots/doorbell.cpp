#include "transport/slots/doorbell.h"

#include <unistd.h>

namespace horing {

void Doorbell::beginWait() {
  flag_->sleeping.store(1, std::memory_order_relaxed);
  // Pairs with the fence in DoorbellButton::press().
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Doorbell::endWait() {
  // relaxed: a peer that still sees 1 only rings unnecessarily.
  flag_->sleeping.store(0, std::memory_order_relaxed);
  char rung[256];
  // An eventfd is empty after one read, a FIFO after a short read.
  while (::read(fd_, rung, sizeof rung) == static_cast<ssize_t>(sizeof rung)) {
  }
}

void DoorbellButton::wake() {
  // Of several peers only one writes. acq_rel: only the flag itself is ordered.
  if (flag_->sleeping.exchange(0, std::memory_order_acq_rel) == 0) return;
  const uint64_t one = 1;  // eight bytes, since an eventfd takes no less
  // EAGAIN: a wake-up is already pending.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

}  // namespace horing
