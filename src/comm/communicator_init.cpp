// How a communicator comes to be: its parts are made in the order in which they need each other.
#include "base/fd.h"
#include "base/hex.h"
#include "comm/communicator.h"
#include "comm/links/link_shape.h"

namespace horing {

namespace {

PeerBuffers::SingleCopy singleCopyOf(const Config& config) {
  using enum PeerBuffers::SingleCopy;
  return config.single_copy == "0" ? kNever : config.single_copy == "1" ? kAlways : kWhereFaster;
}

Records::Files recordFilesOf(const CommunicatorOptions& options, const JobId& id) {
  const std::string short_id = hexText(std::span(id).first(4));
  return {.flight = {options.config.flight_dir, short_id, options.rank, options.ranks},
          .trace_folder = options.config.trace};
}

WaitPolicy waitPolicyOf(const Membership& membership) {
  const Job& job = membership.job();
  WaitPolicy policy;
  if (!job.kernels()[job.identityOf(membership.rank()).boot_id].shares_cores)
    policy.spin_ns = membership.config().spin_us * 1000;
  policy.yield_ns = membership.config().yield_us * 1000;
  return policy;
}

std::unique_ptr<PeerBuffers> peerBuffersOf(const Membership& membership) {
  const CommunicatorOptions& options = membership.options();
  const auto memory = options.hub ? PeerBuffers::Memory::kOfProcess : PeerBuffers::Memory::kOfSegments;
  std::vector<int64_t> processes;
  for (const HostIdentity& identity : membership.job().identities()) processes.push_back(identity.pid);
  return std::make_unique<PeerBuffers>(*options.segments, membership.job().map(), options.rank, memory,
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
      comm->guard_->lookBetweenCalls([comm] { comm->progress_->driveForOthers(); });
    });
    return made;
  }
  if (int* const failed_rank = made->membership_->options().failed_rank) *failed_rank = control.failedRank();
  // The others need not wait for the deadline to hear of it.
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
  HORING_TRY(makeProgress());
  noteMemory();
  return {};
}

Status Communicator::meetOthers(CommunicatorOptions options) {
  HORING_ASSIGN(const UniqueIdParts id, decodeUniqueId(options.id));
  records_ =
      std::make_unique<Records>(recordFilesOf(options, id.job), clock_, options.config.log(options.rank));
  HORING_ASSIGN(membership_, Membership::join(std::move(options), clock_));
  Control& control = membership_->control();
  control.answerFrom(records_->calls(), records_->launches());
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

// What the groups of the ranks decide.
void Communicator::makeParts() {
  const Job& job = membership_->job();
  const int rank = membership_->rank(), ranks = membership_->ranks();
  const Config& config = membership_->config();
  choices_.wait = waitPolicyOf(*membership_);
  choose(std::move(choices_));
  if (membership_->sharesMemory()) reach_->share(peerBuffersOf(*membership_));
  planner_ = std::make_unique<Planner>(config, job.map(), rank, *connector_,
                                       job.kernels().at(job.identityOf(rank).boot_id).cores);
  const uint32_t slot_bytes = linkShapeOf(config, "", ranks).slot_bytes;
  messages_ = std::make_unique<PairMessages>(*connector_, LinkUse::kPointToPoint, rank, ranks, slot_bytes);
  tagged_messages_ = std::make_unique<PairMessages>(*connector_, LinkUse::kTagged, rank, ranks, slot_bytes);
}

Status Communicator::makeProgress() {
  const TaggedExchange::Parts tagged{.messages = tagged_messages_->operation(),
                                     .connector = *connector_,
                                     .lent = reach_->lent(),
                                     .clock = clock_,
                                     .rank = membership_->rank(),
                                     .ranks = membership_->ranks(),
                                     .timeout_ms = timeout_ms_};
  const Progress::Parts parts{.guard = *guard_,
                              .control = membership_->control(),
                              .connector = *connector_,
                              .clock = clock_,
                              .timeline = records_->timeline(),
                              .timeout_ms = timeout_ms_};
  HORING_ASSIGN(progress_, Progress::create(parts, tagged, choices_.wait));
  return {};
}

// Where each rank is a process, one's output cannot be taken from another that writes into it as a thread.
void Communicator::choose(Choices choices) {
  choices_ = std::move(choices);
  const Job& job = membership_->job();
  selector_ = std::make_unique<Selector>(SelectionGround{.config = membership_->config(),
                                                         .map = job.map(),
                                                         .table = choices_.table,
                                                         .shares_memory = membership_->sharesMemory(),
                                                         .writes_memory = job.areAllProcesses(),
                                                         .ranks_per_core = job.shape().ranks_per_core});
  prepared_.clear();
  if (progress_) progress_->setWaitPolicy(choices_.wait);
}

}  // namespace horing
