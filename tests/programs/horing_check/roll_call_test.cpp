// Status ports, and who answers there.
#include "horing_check/roll_call.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace horing::check {
namespace {

constexpr RollCallKey kKey{std::byte{1}, std::byte{2}};

std::vector<Answer> call(const std::vector<Endpoint>& ports, Request request, int limit_ms = 2000,
                         const RollCallKey& key = kKey) {
  return callPorts(ports, key, request,
                   std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms));
}

TEST(StatusPorts, AnswerWhileTheirProcessRuns) {
  Result<std::unique_ptr<StatusPort>> opened = StatusPort::open(kKey, Rails{});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  std::unique_ptr<StatusPort> port = opened.take();
  const Endpoint here = port->endpoint();
  EXPECT_EQ(call({here, here}, Request::kThere), (std::vector<Answer>{Answer::kHere, Answer::kHere}));
  EXPECT_FALSE(port->heardRollCall());
  EXPECT_EQ(call({here}, Request::kRollCall), std::vector<Answer>{Answer::kHere});
  // The answer may come before the flag.
  for (int i = 0; i < 2000 && !port->heardRollCall(); ++i) ::usleep(1000);
  EXPECT_TRUE(port->heardRollCall());
  port.reset();
  EXPECT_EQ(call({here}, Request::kThere), std::vector<Answer>{Answer::kGone});
}

TEST(StatusPorts, DoNotAnswerStrangersNorLetThemHoldUpOthers) {
  Result<std::unique_ptr<StatusPort>> port = StatusPort::open(kKey, Rails{});
  ASSERT_TRUE(port.ok());
  const Endpoint here = port.value()->endpoint();
  std::vector<Fd> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(openSocket(here.address.family).take());
    (void)beginConnect(silent.back().get(), here);
  }
  EXPECT_EQ(call({here}, Request::kRollCall, 2000, RollCallKey{}), std::vector<Answer>{Answer::kGone});
  EXPECT_FALSE(port.value()->heardRollCall());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(call({here}, Request::kThere, 10'000), std::vector<Answer>{Answer::kHere});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5))
      << "20 silent callers, a second each";
}

// As a stopped process: the kernel takes the connection, and nobody answers.
TEST(StatusPorts, OfStoppedNodesDoNotHoldUpTheCaller) {
  Result<Listener> listener = listenOn(nullptr, uint16_t{0});
  ASSERT_TRUE(listener.ok());
  Endpoint silent;
  silent.address = *Address::parse("127.0.0.1");
  silent.port = listener.value().port;
  Result<std::unique_ptr<StatusPort>> port = StatusPort::open(kKey, Rails{});
  ASSERT_TRUE(port.ok());
  const auto begin = std::chrono::steady_clock::now();
  // More than are called at once.
  std::vector<Endpoint> ports(300, port.value()->endpoint());
  ports[1] = silent;
  const std::vector<Answer> answers = call(ports, Request::kThere, 1000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ASSERT_EQ(answers.size(), ports.size());
  for (size_t i = 0; i < ports.size(); ++i)
    EXPECT_EQ(answers[i], i != 1 ? Answer::kHere : Answer::kSilent) << i;
}

}  // namespace
}  // namespace horing::check
