#pragma once
// Clients of NCCL's interface: ranks as threads of this process, on memory of the host.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"

#define ASSERT_NCCL(call) ASSERT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)
#define EXPECT_NCCL(call) EXPECT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)

// Whether a call failed with this code and a text that has `named` in it.
inline testing::AssertionResult refuses(ncclResult_t result, ncclResult_t expected,
                                        const std::string& named) {
  const std::string text = ncclGetLastError(nullptr);
  if (result != expected) return testing::AssertionFailure() << "result " << result << ": " << text;
  if (text.find(named) == std::string::npos)
    return testing::AssertionFailure() << "'" << named << "' is not in: " << text;
  return testing::AssertionSuccess();
}

// Calls body(rank) on a thread for each rank and waits for all.
inline void onEveryRank(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

// Communicators of threads that meet by an ID.
inline std::vector<ncclComm_t> meet(int ranks, ncclConfig_t* config = nullptr) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(ranks));
  ncclUniqueId id;
  EXPECT_NCCL(ncclGetUniqueId(&id));
  onEveryRank(ranks, [&](int rank) {
    EXPECT_NCCL(ncclCommInitRankConfig(&comms[static_cast<size_t>(rank)], ranks, id, rank, config));
  });
  return comms;
}
inline void destroyAll(const std::vector<ncclComm_t>& comms) {
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

// Sets a variable of the environment, and restores its former value.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* const before = std::getenv(name);
    was_set_ = before != nullptr;
    if (before) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (was_set_) {
      ::setenv(name_, before_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool was_set_;
  std::string before_;
};
