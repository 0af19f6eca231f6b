#pragma once
// Thread-local objects that handlers of exit() and static destructors may still use.
#include <pthread.h>

#include <memory>

namespace horing {

// One T per thread: made at the thread's first call, destroyed when the thread ends. The T of the thread that ends the program is not
// destroyed: a thread_local would be destroyed before the handlers of exit(), which may call the library. A thread that is ending and calls
// again gets a new T.
template <typename T>
class ThreadObject {
 public:
  // Throws std::bad_alloc.
  static T& get() {
    if (!mine_) {
      auto made = std::make_unique<T>();
      // Without a pthread key (a process has about a thousand), the object is not freed when the thread ends.
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
    static bool made = ::pthread_key_create(&key, end) == 0;
    return made ? &key : nullptr;
  }

  static inline thread_local T* mine_ = nullptr;
};

}  // namespace horing
