#pragma once
// Tells whether this process is the one that made the guard, or a fork of it, without a system call.
#include <sys/mman.h>
#include <unistd.h>

namespace horing {

class ForkGuard {
 public:
  ForkGuard() {
    void* page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    // The kernel clears the page in every child.
    if (::madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
      ::munmap(page, kPageBytes);
      return;
    }
    mark_ = static_cast<volatile char*>(page);
    *mark_ = 1;
  }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard() {
    if (mark_) ::munmap(const_cast<char*>(mark_), kPageBytes);
  }

  bool isForkedChild() const { return mark_ ? *mark_ == 0 : ::getpid() != maker_; }

 private:
  static constexpr size_t kPageBytes = 4096;
  volatile char* mark_ = nullptr;  // null: the kernel cannot wipe pages, compare process numbers instead
  pid_t maker_ = ::getpid();
};

}  // namespace horing
