#pragma once
// Objects of which each thread has its own, and which handlers of exit() and static destructors may still use.
#include <pthread.h>

#include <memory>

namespace horing {

// One T of a thread: made when the thread first asks for it, gone with the thread. That of the thread that ends the program stays: the
// destructor of a thread_local runs before handlers of exit(), which may call the library. Made anew where a thread that is ending asks again.
template <typename T>
class ThreadObject {
 public:
  // Throws std::bad_alloc.
  static T& get() {
    if (!mine_) {
      auto made = std::make_unique<T>();
      // Without a key, of which a process has a thousand, it stays when the thread ends.
      if (const pthread_key_t* const key = endOfThread()) ::pthread_setspecific(*key, made.get());
      mine_ = made.release();
    }
    return *mine_;
  }

 private:
  static void end(void* object) {
    mine_ = nullptr;
    delete static_cast<T*>(object);
  }
  static const pthread_key_t* endOfThread() {
    static pthread_key_t key;
    static const bool made = ::pthread_key_create(&key, end) == 0;
    return made ? &key : nullptr;
  }

  static inline thread_local T* mine_ = nullptr;
};

}  // namespace horing
