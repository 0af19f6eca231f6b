#include "control/connection_state.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace horing {
namespace {

using State = ConnectionState;
using Event = ConnectionEvent;

std::optional<State> after(std::initializer_list<Event> events) {
  std::optional<State> state = State::kUp;
  for (const Event event : events)
    if (state) state = nextState(*state, event);
  return state;
}

TEST(ConnectionState, ComesBackHoweverOftenItBreaks) {
  EXPECT_EQ(after({Event::kBroke}), State::kBroken);
  EXPECT_EQ(after({Event::kBroke, Event::kConnected}), State::kReturning);
  EXPECT_EQ(after({Event::kBroke, Event::kConnected, Event::kBroke}), State::kBroken);
  EXPECT_EQ(after({Event::kBroke, Event::kConnected, Event::kTakenBack}), State::kUp);
  EXPECT_EQ(after({Event::kBroke, Event::kConnected, Event::kTakenBack, Event::kBroke}), State::kBroken);
}

TEST(ConnectionState, IsTakenBackOnlyWhenItReturns) {
  EXPECT_EQ(after({Event::kTakenBack}), std::nullopt);
  EXPECT_EQ(after({Event::kBroke, Event::kTakenBack}), std::nullopt);
  EXPECT_EQ(after({Event::kBroke, Event::kConnected, Event::kTakenBack, Event::kTakenBack}), std::nullopt);
}

TEST(ConnectionState, EndsOnceFromAnywhere) {
  for (const State state : {State::kUp, State::kBroken, State::kReturning}) {
    EXPECT_FALSE(isFinished(state));
    EXPECT_EQ(nextState(state, Event::kClosing), State::kClosed);
    EXPECT_EQ(nextState(state, Event::kEnded), State::kLost);
  }
  for (const State end : {State::kClosed, State::kLost}) {
    EXPECT_TRUE(isFinished(end));
    for (size_t event = 0; event < kConnectionEvents; ++event)
      EXPECT_EQ(nextState(end, static_cast<Event>(event)).value_or(end), end) << event;
  }
}

}  // namespace
}  // namespace horing
