#pragma once
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "control/control.h"

namespace horing::testing_comm {

// A fake rendezvous controlled by the test.
class FakeControl final : public Control {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  Result<std::vector<std::vector<std::byte>>> allGather(std::span<const std::byte>, Deadline,
                                                        std::string_view) override {
    return Status(Code::kInternalError, "not in this test");
  }
  bool isBehind() const override { return false; }
  Status catchUp(Deadline) override { return {}; }
  Status status() const override { return news; }
  bool isOver(int64_t within_ms) const override {
    if (!is_closed && news.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(within_ms));
    return is_closed || !news.ok();
  }
  int failedRank() const override { return -1; }
  void announceError(const Status& error) override { announced.push_back(error.message()); }
  void leave() override { ++goodbyes; }
  void answerFrom(const CallLog&, const CallLog&) override {}
  void onFailure(std::function<void(const Status&)>) override {}
  void onQuestion(std::function<bool()>) override {}
  void reportCall(const CallReport&) override { ++reports; }
  void reportState(const RankState&) override { ++reports; }
  std::string describeRank(int) const override { return ""; }

  Status news;
  bool is_closed = false;
  std::vector<std::string> announced;
  int goodbyes = 0;
  std::atomic<int> reports{0};
};

}  // namespace horing::testing_comm
