// Lets MPICH share cores. Its progress loop spins without end and its setting for yielding has no effect in this build, so that
// with more ranks than cores every message waits for a time slice. If PEERS_YIELD is set, this replaces UCX's progress function and
// yields the core after each call without progress.
#include <dlfcn.h>
#include <sched.h>

#include <cstdlib>

extern "C" __attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
  using Progress = unsigned (*)(void*);
  static const auto progress = reinterpret_cast<Progress>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  static const bool yields = std::getenv("PEERS_YIELD") != nullptr;
  const unsigned done = progress(worker);
  if (done == 0 && yields) sched_yield();
  return done;
}
