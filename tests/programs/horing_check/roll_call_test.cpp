// Doors, and who answers there.
#include "horing_check/roll_call.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace horing::check {
namespace {

using std::chrono::milliseconds;

TEST(Doors, AnswerWhileTheirProcessRuns) {
  Result<std::unique_ptr<Door>> opened = Door::open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  std::unique_ptr<Door> door = opened.take();
  const Endpoint here = door->endpoint();
  EXPECT_EQ(callDoors({here, here}, Word::kThere, milliseconds(2000)),
            (std::vector<Answer>{Answer::kHere, Answer::kHere}));
  EXPECT_FALSE(door->heardRollCall());
  EXPECT_EQ(callDoors({here}, Word::kRollCall, milliseconds(2000)), std::vector<Answer>{Answer::kHere});
  // The answer may come before the flag.
  for (int i = 0; i < 2000 && !door->heardRollCall(); ++i) ::usleep(1000);
  EXPECT_TRUE(door->heardRollCall());
  door.reset();
  EXPECT_EQ(callDoors({here}, Word::kThere, milliseconds(2000)), std::vector<Answer>{Answer::kGone});
}

// As a stopped process: the kernel takes the connection, and nobody answers.
TEST(Doors, OfStoppedNodesDoNotHoldUpTheCaller) {
  Result<Listener> listener = listenOn(nullptr, uint16_t{0});
  ASSERT_TRUE(listener.ok());
  Endpoint silent;
  silent.address = *Address::parse("127.0.0.1");
  silent.port = listener.value().port;
  Result<std::unique_ptr<Door>> door = Door::open();
  ASSERT_TRUE(door.ok());
  const auto begin = std::chrono::steady_clock::now();
  // More than are called at once.
  std::vector<Endpoint> doors(300, door.value()->endpoint());
  doors[1] = silent;
  const std::vector<Answer> answers = callDoors(doors, Word::kThere, milliseconds(1000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ASSERT_EQ(answers.size(), doors.size());
  for (size_t i = 0; i < doors.size(); ++i)
    EXPECT_EQ(answers[i], i != 1 ? Answer::kHere : Answer::kSilent) << i;
}

}  // namespace
}  // namespace horing::check
