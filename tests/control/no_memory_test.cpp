// What a rank says when memory runs out.
#include "../scarce_memory.h"
#include "control_ranks.h"

namespace horing {
namespace {

using namespace testing_comm;

// With each allocation in turn as the first for which there is no memory.
TEST(NoMemory, TheOthersHearOfAnErrorAllTheSame) {
  bool ran_out = true;
  for (int64_t enough_for = 0; ran_out; ++enough_for) {
    const auto root = startRoot();
    const auto controls = joinAll(root->id(), 2);
    const Status error(Code::kSystemError, "its own words");
    allocations_left = enough_for;
    controls[0]->announceError(error);
    ran_out = allocations_left < 0;
    allocations_left = kNever;
    EXPECT_EQ(controls[0]->status().message(), error.message());
    EXPECT_TRUE(mentions(waitForError(*controls[1]), "its own words"))
        << "memory for " << enough_for << ": " << controls[1]->status().toString();
  }
}

}  // namespace
}  // namespace horing
