// Control messages of a peer that come before or after their time: the link must refuse them.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/clock.h"
#include "scripted_link.h"
#include "transport/verbs/device.h"
#include "transport/verbs/link.h"
#include "transport/verbs/published.h"
#include "verbs_fake.h"

namespace horing::testing {
namespace {

using verbs::ControlTag;

constexpr LinkShape kControlShape{.channels = 1, .slots = 4, .slot_bytes = 128};

// A link of one path, which the peer's hello does not offer: so it never gets ready.
class LonelyLink {
 public:
  LonelyLink() {
    verbs::LinkOptions options{.peer = 1, .shape = kControlShape};
    options.paths.push_back(
        {devices_[0].get(), 0, verbs::PublishedPort::of(devices_[1]->port()), "a0 -> b0"});
    options.new_path_id = [](verbs::VerbsLink&, size_t) { return 0u; };
    options.regions = &regions_;
    options.moved = &moved_;
    options.clock = &clock_;
    options.log = Log(LogLevel::kNone);
    link_ = std::make_unique<verbs::VerbsLink>(std::move(options), control_);
    EXPECT_TRUE(link_->open().ok());
  }

  Status hear(const std::vector<ControlTag>& tags) {
    for (const ControlTag tag : tags) say(tag);
    link_->progressControl();
    return link_->status();
  }

 private:
  static FakeDevice device(const char* name, int host) {
    return {.name = name, .wire = 0, .gid = fakeGid(0, host)};
  }
  std::vector<std::unique_ptr<verbs::Device>> open() {
    auto opened = verbs::openDevices(verbs_.library(), {}, 2);
    EXPECT_TRUE(opened.ok());
    return std::move(opened.take().devices);
  }
  void say(ControlTag tag) {
    switch (tag) {
      case ControlTag::kHello:
        return control_.say(tag, verbs::Hello{.channels = 1, .slots = 4, .slot_bytes = 128, .paths = 1});
      case ControlTag::kReady:
        return control_.say(static_cast<Tag>(tag), {});
      case ControlTag::kBroken:
        return control_.say(tag, verbs::Broken{});
      case ControlTag::kAgain:
        return control_.say(tag, verbs::Again{});
      case ControlTag::kOn:
        return control_.say(tag, uint32_t{0});
      case ControlTag::kGoodbye:
        return control_.say(tag, verbs::Goodbye{});
    }
    control_.say(static_cast<Tag>(tag), {});  // of no known kind
  }

  FakeVerbs verbs_{{device("a0", 1), device("b0", 2)}};
  ManualClock clock_;
  std::vector<std::unique_ptr<verbs::Device>> devices_ = open();
  verbs::RegionCache regions_{devices_, {}, Log(LogLevel::kNone)};
  DataMoved moved_;
  ScriptedLink control_{verbs::kControlShape.slot_bytes, [](Tag, std::span<const std::byte>) {}};
  std::unique_ptr<verbs::VerbsLink> link_;
};

void expectRefused(const std::vector<ControlTag>& tags) {
  LonelyLink link;
  EXPECT_TRUE(link.hear({tags.begin(), tags.end() - 1}).ok()) << "what came before";
  const Status status = link.hear({tags.back()});
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_NE(status.message().find("an unexpected control message"), std::string::npos) << status.message();
}

TEST(VerbsControl, BeginsWithTheHello) {
  using enum ControlTag;
  for (const ControlTag tag : {kReady, kBroken, kAgain, kOn, kGoodbye}) {
    SCOPED_TRACE(static_cast<uint64_t>(tag));
    expectRefused({tag});
  }
  expectRefused({static_cast<ControlTag>(4711)});
}

TEST(VerbsControl, HearsEachStageOfThePeerOnce) {
  using enum ControlTag;
  expectRefused({kHello, kHello});
  expectRefused({kHello, kReady, kReady});
  expectRefused({kHello, kReady, kHello});
}

TEST(VerbsControl, HearsNoGoodbyeAndNoReturnOfAPathBeforeItIsReady) {
  using enum ControlTag;
  for (const ControlTag tag : {kGoodbye, kAgain}) {
    SCOPED_TRACE(static_cast<uint64_t>(tag));
    expectRefused({kHello, tag});
    expectRefused({kHello, kReady, tag});
  }
}

TEST(VerbsControl, HearsOfALostPathAfterTheHello) {
  LonelyLink link;
  const Status status = link.hear({ControlTag::kHello, ControlTag::kBroken});
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_NE(status.message().find("no path works"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace horing::testing
