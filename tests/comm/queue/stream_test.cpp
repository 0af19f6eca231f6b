// A stream as seen by threads that wait for it or query it. Operations on streams: tests/capi.
#include "comm/queue/stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace horing {
namespace {

StreamTurn enter(Stream& stream) {
  StreamTurn turn{&stream};
  Stream::enter({&turn, 1});
  return turn;
}

void finish(const StreamTurn& turn, const Status& status) {
  Stream::DueCallbacks due;
  turn.stream->finish(turn.turn, status, due);
  due.call();
}

TEST(Stream, AQueryNeverWaitsAndTakesTheErrorOnce) {
  Stream stream;
  EXPECT_TRUE(stream.query().ok()) << "nothing was entered";
  const StreamTurn first = enter(stream), second = enter(stream);
  EXPECT_EQ(stream.query().code(), Code::kInProgress);
  finish(first, makeStatus(Code::kTimeout, "late"));
  EXPECT_EQ(stream.query().code(), Code::kInProgress) << "the second is not finished";
  finish(second, {});
  EXPECT_EQ(stream.query().message(), "late");
  EXPECT_TRUE(stream.query().ok());
}

// Another thread may enter something at any time, also from the callback that asks.
TEST(Stream, AQueryInACallbackSeesWhatWasEnteredThere) {
  Stream stream;
  const StreamTurn first = enter(stream);
  Status asked;
  StreamTurn later{};
  stream.callBack([&](const Status&) {
    later = enter(stream);
    asked = stream.query();
  });
  finish(first, {});
  EXPECT_EQ(asked.code(), Code::kInProgress);
  finish(later, {});
  EXPECT_TRUE(stream.query().ok());
}

// The first mark is the last to get its callback.
TEST(Stream, CallsBackOnceWhatIsBeforeAMarkHasEnded) {
  Stream stream;
  std::vector<std::string> called;
  const auto call_back_at = [&](const char* name, Stream::Turn mark) {
    stream.callBack([&called, name](const Status& status) { called.push_back(name + status.message()); },
                    mark);
  };
  const StreamTurn first = enter(stream);
  const Stream::Turn early = stream.mark();
  const StreamTurn second = enter(stream);
  call_back_at("at the end", Stream::kAll);
  call_back_at("before both", 0);
  call_back_at("between them", early);
  EXPECT_EQ(called, std::vector<std::string>{"before both"});
  finish(second, makeStatus(Code::kTimeout, ": late"));
  EXPECT_EQ(called.size(), 1U) << "the first has not ended";
  finish(first, {});
  EXPECT_EQ(called, (std::vector<std::string>{"before both", "between them", "at the end: late"}));
  call_back_at("again", early);
  EXPECT_EQ(called.back(), "again") << "without the error behind it";
}

}  // namespace
}  // namespace horing
