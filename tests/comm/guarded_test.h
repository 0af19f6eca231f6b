#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "base/config.h"
#include "comm/guard/guard.h"
#include "fake_control.h"

namespace horing::testing_comm {

// The guard of rank 0 of two, under a fake rendezvous.
class GuardedTest : public ::testing::Test {
 protected:
  FakeControl control_;
  SteadyClock clock_;
  Log log_ = Config::fromLookup([](const char*) { return nullptr; }).take().log(0);
  std::shared_ptr<BufferUsers> users_ = BufferUsers::of(JobId{});
  std::atomic<bool> aborted_{false};
  Records records_{{}, clock_, log_};
  Guard guard_{{.rank = 0,
                .control = control_,
                .clock = clock_,
                .log = log_,
                .buffer_users = *users_,
                .aborted = aborted_,
                .records = records_}};
};

}  // namespace horing::testing_comm
