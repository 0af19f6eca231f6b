// The initialisation of a communicator: makes its parts in the order of their dependencies.
#include <algorithm>

#include "base/fd.h"
#include "base/hex.h"
#include "comm/communicator.h"
#include "comm/links/link_shape.h"
#include "comm/membership/log_of.h"
#include "selection/asked_algorithm.h"

namespace horing {

namespace {

constexpr int64_t kSpinNs = 20'000;  // with a core of its own; after that it yields after each poll

PeerBuffers::SingleCopy singleCopyOf(const Config& config) {
  using enum PeerBuffers::SingleCopy;
  return config.single_copy == "0" ? kNever : config.single_copy == "1" ? kAlways : kWhereFaster;
}

Records::Files recordFilesOf(const CommunicatorOptions& options, const JobId& id) {
  const std::string short_id = hexText(std::span(id).first(4));
  return {.flight = {options.config.flight_dir, short_id, options.rank, options.ranks},
          .trace_folder = options.config.trace,
          .metrics_folder = options.config.metrics};
}

WaitPolicy waitPolicyOf(const Membership& membership) {
  const Placement& placement = membership.placement();
  const int64_t wait_ns = membership.config().spin_us * 1000;
  WaitPolicy policy;
  if (!placement.kernels()[placement.identityOf(membership.rank()).boot_id].shares_cores)
    policy.spin_ns = std::min(kSpinNs, wait_ns);
  policy.yield_ns = wait_ns - policy.spin_ns;
  return policy;
}

std::unique_ptr<PeerBuffers> peerBuffersOf(const Membership& membership) {
  const CommunicatorOptions& options = membership.options();
  const auto memory = options.hub ? PeerBuffers::Memory::kOfProcess : PeerBuffers::Memory::kOfSegments;
  std::vector<int64_t> processes;
  for (const HostIdentity& identity : membership.placement().identities()) processes.push_back(identity.pid);
  return std::make_unique<PeerBuffers>(*options.segments, membership.placement().map(), options.rank, memory,
                                       std::move(processes), singleCopyOf(options.config));
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) {
  Fd::closeInForkedChildren();
  std::unique_ptr<Communicator> made(new Communicator());
  const Status status = made->initialise(std::move(options));
  if (!status.ok() && !made->membership_) return status;
  Control& control = made->membership_->control();
  if (status.ok()) {
    control.onQuestion([comm = made.get()] {
      bool took = false;
      comm->guard_->lookBetweenCalls([&] { took = comm->progress_->driveForOthers(); });
      return took;
    });
    return made;
  }
  if (int* const failed_rank = made->membership_->options().failed_rank) *failed_rank = control.failedRank();
  // So that the other ranks fail at once, not at the deadline.
  if (control.status().ok()) control.announceError(status);
  return status;
}

Status Communicator::initialise(CommunicatorOptions options) {
  const Deadline deadline = Deadline::after(clock_, options.config.init_timeout_ms);
  HORING_TRY(checkForced(options.config));
  HORING_ASSIGN(choices_.table, SelectionTable::fromSetting(options.config.selection));
  choices_.machine = options.machine;
  timeout_ms_ = operationMs(options.config.timeout_ms);
  HORING_TRY(meetOthers(std::move(options)));
  HORING_TRY(makeLinks());
  HORING_TRY(membership_->introduce(*connector_, choices_.table.digest(), deadline));
  makeParts();
  makeProgress();
  makeMessages();
  noteMemory();
  return {};
}

Status Communicator::meetOthers(CommunicatorOptions options) {
  HORING_ASSIGN(const UniqueIdParts id, decodeUniqueId(options.id));
  records_ = std::make_unique<Records>(recordFilesOf(options, id.job), clock_, logOf(options));
  HORING_ASSIGN(membership_, Membership::join(std::move(options), clock_));
  Control& control = membership_->control();
  control.answerFrom(records_->calls(), records_->launches());
  records_->startMetrics();
  control.onFailure([records = records_.get()](const Status& error) { records->writeFlight(error); });
  return {};
}

Status Communicator::makeLinks() {
  const CommunicatorOptions& options = membership_->options();
  HORING_ASSIGN(auto transports, membership_->makeTransports());
  std::vector<LinkShape> shapes;
  for (const auto& transport : transports)
    shapes.push_back(linkShapeOf(options.config, transport->name(), options.ranks));
  connector_ = std::make_unique<Connector>(options.rank, std::move(shapes), std::move(transports));
  reach_ = std::make_unique<Reach>(
      Reach::Parts{.communicator = membership_->id(),
                   .rank = options.rank,
                   .connector = *connector_,
                   .segments = options.segments,
                   .ib_gpu_memory = options.config.ib_gpu_memory,
                   .log = membership_->log(),
                   .is_forked_child = [this] { return membership_->isForkedChild(); }});
  guard_ = std::make_unique<Guard>(Guard::Parts{.rank = options.rank,
                                                .control = membership_->control(),
                                                .clock = clock_,
                                                .log = membership_->log(),
                                                .buffer_users = reach_->users(),
                                                .aborted = membership_->aborted(),
                                                .records = *records_});
  return {};
}

// Makes the parts that depend on the groups.
void Communicator::makeParts() {
  const Placement& placement = membership_->placement();
  const int rank = membership_->rank(), ranks = membership_->ranks();
  const Config& config = membership_->config();
  choices_.wait = waitPolicyOf(*membership_);
  choose(std::move(choices_));
  if (membership_->sharesMemory()) reach_->share(peerBuffersOf(*membership_));
  planner_ = std::make_unique<Planner>(config, placement.map(), rank, *connector_,
                                       placement.kernels().at(placement.identityOf(rank).boot_id).cores);
  const uint32_t slot_bytes = linkShapeOf(config, "", ranks).slot_bytes;
  MessageRecorder* const recorder = &records_->calls().messages();
  const auto make = [&](LinkUse use, int signals, MessageRecorder* its_recorder) {
    return std::make_unique<PairMessages>(*connector_, use, rank, ranks, slot_bytes, signals, its_recorder);
  };
  untagged_messages_ = make(LinkUse::kPointToPoint, 0, recorder);
  messages_beside_ = make(LinkUse::kBeside, membership_->options().signals, recorder);
  measurement_messages_ = make(LinkUse::kMeasurement, 0, nullptr);
}

void Communicator::makeProgress() {
  const ExchangeBeside::Parts beside{.messages = messages_beside_->operation(),
                                     .connector = *connector_,
                                     .lent = reach_->lent(),
                                     .clock = clock_,
                                     .rank = membership_->rank(),
                                     .ranks = membership_->ranks(),
                                     .timeout_ms = timeout_ms_,
                                     .recorder = records_->calls().messages()};
  const Progress::Parts parts{.guard = *guard_,
                              .connector = *connector_,
                              .clock = clock_,
                              .timeline = records_->timeline(),
                              .timeout_ms = timeout_ms_};
  progress_ = std::make_unique<Progress>(parts, beside, choices_.wait);
}

// Makes the parts that drive operations of their own.
void Communicator::makeMessages() {
  const MessageParts parts{.guard = *guard_,
                           .connector = *connector_,
                           .reach = *reach_,
                           .progress = *progress_,
                           .untagged = *untagged_messages_,
                           .beside = *messages_beside_,
                           .measurement = *measurement_messages_,
                           .clock = clock_,
                           .timeout_ms = timeout_ms_,
                           .links_made = [this] { noteMemory(); }};
  messages_.emplace(parts);
  windows_.emplace(*membership_, parts);
}

void Communicator::choose(Choices choices) {
  const Placement& placement = membership_->placement();
  auto selector = std::make_shared<const Selector>(
      SelectionGround{.config = membership_->config(),
                      .map = placement.map(),
                      .table = choices.table,
                      .shares_memory = membership_->sharesMemory(),
                      // A peer thread's access to an output cannot be revoked.
                      .writes_memory = placement.areAllProcesses(),
                      .ranks_per_core = placement.shape().ranks_per_core,
                      .rates = choices.rates});
  prepared_.clear();
  {
    const std::lock_guard lock(choices_mutex_);
    choices_ = std::move(choices);
    selector_ = std::move(selector);
  }
  if (progress_) progress_->setWaitPolicy(choices_.wait);
}

void Communicator::observeCalls(std::unique_ptr<CallObserver> observer) {
  observer_ = std::move(observer);
  has_observer_.store(observer_ != nullptr, std::memory_order_relaxed);
}

Choices Communicator::choices() const {
  const std::lock_guard lock(choices_mutex_);
  return choices_;
}

std::shared_ptr<const Selector> Communicator::selector() const {
  const std::lock_guard lock(choices_mutex_);
  return selector_;
}

Result<const char*> Communicator::askedAlgorithm(std::string_view text, Collective collective) const {
  HORING_ASSIGN(const Algorithm* const asked, horing::askedAlgorithm(text, collective, membership_->config(),
                                                                     membership_->placement().map()));
  return asked->name;
}

}  // namespace horing
