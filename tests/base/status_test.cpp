#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>

namespace horing {
namespace {

TEST(Status, IsOkWithoutAMessageByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.toString(), "no error");
}

TEST(Status, CarriesCodeAndText) {
  const Status status = makeStatus(Code::kTimeout, "rank %d waited %s", 3, "long");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.toString(), "timeout: rank 3 waited long");
  const Status copy = status;
  EXPECT_EQ(copy.message(), status.message());
}

TEST(Status, KeepsLongText) {
  const std::string text(5000, 'x');
  EXPECT_EQ(makeStatus(Code::kInternalError, "%s", text.c_str()).message(), text);
}

TEST(Status, ExplainsSystemErrors) {
  EXPECT_EQ(systemError(ENOENT, "open %s", "f").toString(),
            "system error: open f: No such file or directory");
}

Status failWhen(int at, int step) {
  return at == step ? makeStatus(Code::kInvalidUsage, "step %d", step) : Status();
}

Status walk(int at, int& reached) {
  reached = 0;
  HORING_TRY(failWhen(at, 1));
  reached = 1;
  HORING_TRY(failWhen(at, 2));
  reached = 2;
  return {};
}

TEST(Status, TryStopsAtTheFirstFailure) {
  int reached = 0;
  EXPECT_TRUE(walk(0, reached).ok());
  EXPECT_EQ(reached, 2);
  EXPECT_EQ(walk(2, reached).message(), "step 2");
  EXPECT_EQ(reached, 1);
}

Result<std::unique_ptr<int>> make(bool succeed) {
  if (!succeed) return makeStatus(Code::kSystemError, "none");
  return std::make_unique<int>(7);
}

Result<int> unwrap(bool succeed) {
  HORING_ASSIGN(const std::unique_ptr<int> owned, make(succeed));
  return *owned + 1;
}

TEST(Result, HoldsAValueOrTheReason) {
  const Result<int> good = unwrap(true);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good.value(), 8);
  const Result<int> bad = unwrap(false);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().toString(), "system error: none");
}

TEST(Code, HasANameEach) {
  for (int code = 0; code <= static_cast<int>(Code::kTimeout); ++code)
    EXPECT_STRNE(codeName(static_cast<Code>(code)), "unknown result code") << code;
}

}  // namespace
}  // namespace horing
