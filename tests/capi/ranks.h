#pragma once
// Ranks as threads of this process, each with its own communicator.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../sanitizer.h"
#include "horing/horing.h"

#define ASSERT_HORING(call) ASSERT_EQ(call, horingSuccess) << horingGetLastError(nullptr)
#define EXPECT_HORING(call) EXPECT_EQ(call, horingSuccess) << horingGetLastError(nullptr)

// Exact in float: small integers.
inline float element(int rank, size_t index) {
  return static_cast<float>((static_cast<size_t>(rank) * 31 + index * 7) % 101);
}
inline std::vector<float> filled(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = element(rank, i);
  return values;
}

// Whether a call failed with this code and a text that has `named` in it.
inline testing::AssertionResult refuses(horingResult_t result, horingResult_t expected, const char* named) {
  const std::string text = horingGetLastError(nullptr);
  if (result != expected) return testing::AssertionFailure() << "result " << result << ": " << text;
  if (text.find(named) == std::string::npos)
    return testing::AssertionFailure() << "'" << named << "' is not in: " << text;
  return testing::AssertionSuccess();
}

// Whether data[i] is expected(i) for all elements. One assertion for each would take most of a test's time, above all under a
// sanitizer.
template <class T, class Expected>
testing::AssertionResult holds(const T* data, size_t count, const Expected& expected) {
  for (size_t i = 0; i < count; ++i)
    if (data[i] != expected(i))
      return testing::AssertionFailure()
             << "element " << i << " is " << data[i] << " instead of " << expected(i);
  return testing::AssertionSuccess();
}

// Calls body(rank) on a thread for each rank and waits for all.
inline void onEveryRank(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

enum class Meeting { kInitRank, kInitAll };

// Makes `ranks` communicators: by ID over the transports that separate processes would use, or all at once over loopback.
inline std::vector<horingComm_t> makeCommunicators(int ranks, Meeting meeting) {
  std::vector<horingComm_t> comms(static_cast<size_t>(ranks), nullptr);
  if (meeting == Meeting::kInitAll) {
    EXPECT_HORING(horingCommInitAll(comms.data(), ranks, nullptr));
    return comms;
  }
  horingUniqueId id;
  EXPECT_HORING(horingGetUniqueId(&id));
  onEveryRank(ranks, [&](int rank) {
    EXPECT_HORING(horingCommInitRank(&comms[static_cast<size_t>(rank)], ranks, id, rank));
  });
  return comms;
}

// Makes a communicator by ID whose ranks differ in their settings: prepare(r) sets the environment that rank r finds. Each call of
// an open group reads it before it returns.
inline std::vector<horingComm_t> makeOneByOne(int ranks, const std::function<void(int)>& prepare) {
  std::vector<horingComm_t> comms(static_cast<size_t>(ranks), nullptr);
  horingUniqueId id;
  EXPECT_HORING(horingGetUniqueId(&id));
  EXPECT_HORING(horingGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    prepare(rank);
    EXPECT_HORING(horingCommInitRank(&comms[static_cast<size_t>(rank)], ranks, id, rank));
  }
  EXPECT_HORING(horingGroupEnd());
  return comms;
}

// Makes a communicator by ID whose rank r is in the group named labels[r].
inline std::vector<horingComm_t> makeGroups(const std::vector<const char*>& labels) {
  std::vector<horingComm_t> comms = makeOneByOne(static_cast<int>(labels.size()), [&](int rank) {
    ::setenv("HORING_GROUP", labels[static_cast<size_t>(rank)], 1);
  });
  ::unsetenv("HORING_GROUP");
  return comms;
}

// The lower half of the ranks is group A and uses its RDMA devices, the other is group B: see tests/rdma_machine.h.
inline std::vector<horingComm_t> makeOnWires(int ranks) {
  std::vector<horingComm_t> comms = makeOneByOne(ranks, [&](int rank) {
    const bool lower = rank < ranks / 2;
    ::setenv("HORING_GROUP", lower ? "A" : "B", 1);
    ::setenv("HORING_IB_HCA", lower ? "=rxe0,rxe2" : "=rxe1,rxe3", 1);
  });
  ::unsetenv("HORING_GROUP");
  ::unsetenv("HORING_IB_HCA");
  return comms;
}

// Sets an environment variable while the object exists.
class Setting {
 public:
  Setting(const char* name, int value) : Setting(name, std::to_string(value)) {}
  Setting(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};
