#include "transport/faulty/faulty_transport.h"

#include <sys/eventfd.h>

#include <vector>

#include "base/fd.h"
#include "transport/faulty/faulty_link.h"

namespace horing {
namespace {

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, int rank, const FaultPlan& plan)
      : inner_(std::move(inner)),
        rank_(rank),
        plan_(plan),
        readable_(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  const char* name() const override { return "faulty"; }
  std::vector<std::byte> address() const override { return inner_->address(); }
  bool canReach(std::span<const std::byte> peer_address) const override {
    return inner_->canReach(peer_address);
  }
  std::string whyUnreachable(std::span<const std::byte> peer_address) const override {
    return inner_->whyUnreachable(peer_address);
  }
  Result<Link*> connect(int peer, std::span<const std::byte> peer_address, const LinkShape& shape,
                        int number) override;
  Status progress() override;
  void beginWait() override { inner_->beginWait(); }
  int waitFd() const override;
  void endWait() override { inner_->endWait(); }
  uint64_t memoryBytes() const override { return inner_->memoryBytes(); }
  RegionAccess* regions() override { return inner_->regions(); }

 private:
  std::unique_ptr<Transport> inner_;
  int rank_;
  FaultPlan plan_;
  Fd readable_;  // always readable
  std::vector<std::unique_ptr<FaultyLink>> links_;
  Status first_error_;
};

Result<Link*> FaultyTransport::connect(int peer, std::span<const std::byte> peer_address,
                                       const LinkShape& shape, int number) {
  HORING_ASSIGN(Link * link, inner_->connect(peer, peer_address, shape, number));
  links_.push_back(std::make_unique<FaultyLink>(
      link, FaultyState{.plan = plan_, .rank = rank_, .peer = peer, .number = number}, shape));
  return links_.back().get();
}

Status FaultyTransport::progress() {
  const Status inner = inner_->progress();
  if (first_error_.ok()) first_error_ = inner;
  for (const auto& link : links_) {
    link->settle();
    if (first_error_.ok()) first_error_ = link->status();
  }
  return first_error_;
}

int FaultyTransport::waitFd() const {
  // A delayed message has rung already and will not ring again: blocking would be for ever.
  for (const auto& link : links_) {
    if (link->state().held_back > 0) return readable_.get();
  }
  return inner_->waitFd();
}

}  // namespace

std::unique_ptr<Transport> makeFaultyTransport(std::unique_ptr<Transport> inner, int rank,
                                               const FaultPlan& plan) {
  return std::make_unique<FaultyTransport>(std::move(inner), rank, plan);
}

}  // namespace horing
