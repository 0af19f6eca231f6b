#include <algorithm>
#include <cstring>
#include <memory>

#include "../transport/scripted_link.h"
#include "../transport/verbs_fake.h"
#include "base/check.h"
#include "base/clock.h"
#include "targets.h"
#include "transport/verbs/device.h"
#include "transport/verbs/device_selection.h"
#include "transport/verbs/link.h"
#include "transport/verbs/published.h"

namespace horing::fuzz {

namespace {

using testing::FakeDevice;
using testing::fakeGid;
using testing::FakeVerbs;
using testing::ScriptedLink;
using verbs::ControlTag;

constexpr LinkShape kShape{.channels = 2, .slots = 4, .slot_bytes = 128};

// This rank's link over a0 and a1, and what holds the other ends of its wires,
// b0 and b1.
class Scene {
 public:
  Scene() {
    link_.reset(new verbs::VerbsLink(options(), control_));
    HORING_CHECK(link_->open().ok());
    link_->progressControl();  // which sends a hello
    region_ = registered(*devices_[2]);
  }

  // The other end of a path, connected by the link's last hello.
  void meet(size_t index) {
    auto made =
        verbs::Path::make(*devices_[2 + index], {.id = 1000, .sends = 64, .receives = 64, .pkey_index = 0});
    HORING_CHECK(made.ok());
    ends_[index] = made.take();
    [[maybe_unused]] const Status on =
        ends_[index]->connect(hello_.path[index], verbs::PublishedPort::of(devices_[index]->port()), {});
  }
  verbs::PathHello helloOf(size_t index) const {
    return {.queue_pair = ends_[index]->queuePair(),
            .packet_number = 0,
            .remote_key = region_.remoteKey(),
            .reserved = 0};
  }
  void sayHello(Bytes changes) {
    verbs::Hello hello{
        .channels = 2, .slots = 4, .slot_bytes = 128, .paths = 2, .slots_address = address(), .path = {}};
    for (size_t i = 0; i < 2; ++i) {
      meet(i);
      hello.path[i] = helloOf(i);
    }
    auto* const at = reinterpret_cast<std::byte*>(&hello);
    for (size_t i = 0; i < std::min(changes.size(), sizeof hello); ++i) at[i] ^= changes[i];
    control_.say(ControlTag::kHello, hello);
  }
  // A message anywhere in the link's slots, or outside them.
  void write(size_t index, uint32_t offset, uint32_t bytes, uint32_t immediate) {
    if (!ends_[index] || !ends_[index]->hasRoom()) return;
    const uint64_t to = hello_.slots_address + offset;
    const verbs::Piece piece{
        .from = memory_, .bytes = std::min(bytes, uint32_t{sizeof memory_}), .local_key = region_.localKey()};
    [[maybe_unused]] const Status posted = ends_[index]->post(
        {.pieces = {piece}, .to = to, .remote_key = hello_.path[index].remote_key, .immediate = immediate});
  }
  void turn() {
    for (size_t i = 0; i < 2; ++i) {
      [[maybe_unused]] const std::string trouble = devices_[i]->takeTrouble(Log(LogLevel::kNone));
      if (!trouble.empty()) link_->portFailed(*devices_[i], trouble);
      devices_[i]->poll(
          [this](const ibv_wc& done) { link_->completed(owners_[verbs::Path::idOf(done)], done); });
      devices_[2 + i]->poll([](const ibv_wc&) {});
    }
    link_->progressControl();
    link_->progress(verbs::VerbsLink::Effort::kThorough);
  }

  FakeVerbs verbs{{device("a0", 0, 1), device("a1", 1, 1), device("b0", 0, 2), device("b1", 1, 2)}};
  ManualClock clock;
  ScriptedLink& control() { return control_; }
  verbs::VerbsLink& link() { return *link_; }

 private:
  static FakeDevice device(const char* name, int wire, int host) {
    return {.name = name, .wire = wire, .gid = fakeGid(wire, host)};
  }
  std::vector<std::unique_ptr<verbs::Device>> open() {
    auto opened = verbs::openDevices(verbs.library(), {}, 4);
    HORING_CHECK(opened.ok());
    return std::move(opened.take().devices);
  }
  verbs::LinkOptions options() {
    verbs::LinkOptions all{.peer = 1, .shape = kShape};
    for (size_t i = 0; i < 2; ++i)
      all.paths.push_back({devices_[i].get(), i, verbs::PublishedPort::of(devices_[2 + i]->port()), "fuzz"});
    all.new_path_id = [this](verbs::VerbsLink&, size_t index) {
      owners_.push_back(index);
      return static_cast<uint32_t>(owners_.size() - 1);
    };
    all.outage_ns = 10'000'000'000;
    all.regions = &regions_;
    all.moved = &moved_;
    all.clock = &clock;
    all.log = Log(LogLevel::kNone);
    return all;
  }
  verbs::Registration registered(verbs::Device& device) {
    auto made = verbs::Registration::make(device, {.begin = memory_, .bytes = sizeof memory_},
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    HORING_CHECK(made.ok());
    return made.take();
  }
  // Keeps the last offer of the link for each path.
  void posted(Tag tag, Bytes data) {
    verbs::Again again{};
    if (tag == static_cast<Tag>(ControlTag::kHello)) std::memcpy(&hello_, data.data(), sizeof hello_);
    if (tag != static_cast<Tag>(ControlTag::kAgain)) return;
    std::memcpy(&again, data.data(), sizeof again);
    hello_.path[again.path] = again.hello;
  }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory_); }

  std::vector<std::unique_ptr<verbs::Device>> devices_ = open();
  alignas(64) std::byte memory_[4096] = {};
  verbs::Registration region_;
  verbs::RegionCache regions_{devices_, {}, Log(LogLevel::kNone)};
  DataMoved moved_;
  std::vector<size_t> owners_;  // index of each path's identity
  verbs::Hello hello_{};
  ScriptedLink control_{verbs::kControlShape.slot_bytes, [this](Tag tag, Bytes data) { posted(tag, data); }};
  std::unique_ptr<verbs::VerbsLink> link_;
  std::unique_ptr<verbs::Path> ends_[2];
};

ChannelState stateFrom(Input& in) {
  return {.released = in.number<uint8_t>(), .received = {in.number<uint8_t>(), 0}};
}

void sayNumbered(Input& in, Scene& scene, uint32_t action) {
  const uint32_t path = in.number<uint8_t>() % 3;
  if (action == 0) return scene.control().say(ControlTag::kOn, path);
  if (action == 1) {
    verbs::Broken said{
        .path = path, .for_good = path % 2, .state = {stateFrom(in), stateFrom(in)}, .why = {}};
    const Bytes why = in.piece();
    std::memcpy(said.why.data(), why.data(), std::min(why.size(), said.why.size()));
    return scene.control().say(ControlTag::kBroken, said);
  }
  if (action == 2) {
    verbs::Again said{.path = path, .reserved = 0, .hello = {}};
    if (path < 2) scene.meet(path);
    if (path < 2) said.hello = scene.helloOf(path);
    if (in.number<uint8_t>() > 200) said.hello.queue_pair = in.number<uint32_t>();
    return scene.control().say(ControlTag::kAgain, said);
  }
  verbs::Goodbye said{};
  for (size_t channel = 0; channel < 2; ++channel) {
    said.posted[channel] = in.number<uint8_t>();
    said.released[channel] = in.number<uint8_t>();
  }
  scene.control().say(ControlTag::kGoodbye, said);
}

void useLink(Input& in, Scene& scene) {
  verbs::VerbsLink& link = scene.link();
  if (!link.established()) return;
  const uint8_t how = in.number<uint8_t>();
  const int channel = how & 1;
  if (how & 2) {
    if (link.sender(channel).tryAcquire(kWholeSlot)) link.sender(channel).post(how & 127, how);
  } else if (const Message* const message = link.receiver(channel).tryPeek()) {
    HORING_CHECK_LE(message->bytes, kShape.slot_bytes);
    link.receiver(channel).release();
  }
}

void actOn(Input& in, Scene& scene) {
  const uint8_t action = in.number<uint8_t>();
  switch (action % 8) {
    case 0:
      return scene.control().say(in.number<uint64_t>(), in.piece());
    case 1:
      return scene.sayHello(in.piece());
    case 2:
      return scene.control().say(static_cast<uint64_t>(ControlTag::kReady), {});
    case 3:
      return sayNumbered(in, scene, action / 8 % 4);
    case 4: {
      const uint16_t offset = in.number<uint16_t>();
      const uint8_t bytes = in.number<uint8_t>();
      return scene.write(action / 8 % 2, offset, bytes, in.number<uint32_t>());
    }
    case 5:
      return useLink(in, scene);
    case 6:
      if (action & 8) return scene.verbs.plug(action / 16 % 2);
      return scene.verbs.pull(action / 16 % 2,
                              action & 32 ? FakeVerbs::Pull::kSilently : FakeVerbs::Pull::kPortsDown);
    default:
      scene.control().full = (action & 8) != 0;
      return scene.clock.advanceNs((action & 16) != 0 ? 2'000'000'000 : 1'000'000);
  }
}

}  // namespace

// A peer's messages over the control link, and its RDMA writes, at any time, while ports go down and up.
void verbsLink(Bytes bytes) {
  Scene scene;
  Input in(bytes);
  while (!in.empty()) {
    actOn(in, scene);
    scene.turn();
  }
  [[maybe_unused]] const bool left = scene.link().leave();
  HORING_CHECK(!scene.link().describe().empty());
}

// RDMA ports that two ranks give to each other, and the paths that both compute
// from them.
void verbsPublished(Bytes bytes) {
  Input in(bytes);
  const Bytes first = in.bytes(in.number<uint16_t>());
  const auto lower = verbs::Published::decode(first);
  const auto higher = verbs::Published::decode(in.all());
  if (!lower.ok()) return;
  const auto again = verbs::Published::decode(lower.value().encode());
  HORING_CHECK(again.ok() && again.value().encode() == lower.value().encode());
  const verbs::Published& other = higher.ok() ? higher.value() : lower.value();
  HORING_CHECK(!other.ports.empty() && other.ports.size() <= verbs::kMaxPorts);
  std::vector<bool> used(other.ports.size());
  const std::vector<verbs::PortPair> pairs = verbs::pairPorts(lower.value().ports, other.ports);
  HORING_CHECK_LE(pairs.size(), verbs::kMaxPaths);
  for (const verbs::PortPair& pair : pairs) {
    HORING_CHECK_LT(pair.lower, lower.value().ports.size());
    HORING_CHECK_LT(pair.higher, other.ports.size());
    HORING_CHECK(!used[pair.higher]);
    used[pair.higher] = true;
    HORING_CHECK(lower.value().ports[pair.lower].kind == other.ports[pair.higher].kind);
  }
}

// HORING_IB_HCA.
void verbsDevices(Bytes bytes) {
  const auto chosen = verbs::DeviceSelection::parse(std::string(textOf(bytes)));
  if (!chosen.ok()) {
    HORING_CHECK(chosen.status().message().find("HORING_IB_HCA") != std::string::npos);
    return;
  }
  for (const int port : {1, 2, 255}) (void)chosen.value().chooses("mlx5_0", port);
}

}  // namespace horing::fuzz
