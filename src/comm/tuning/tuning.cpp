#include "comm/tuning/tuning.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "comm/description.h"
#include "comm/tuning/calibration.h"
#include "comm/tuning/group_rates.h"
#include "comm/tuning/kept.h"
#include "comm/tuning/rate_follower.h"
#include "selection/group_shares.h"
#include "selection/model_selection.h"
#include "selection/selection.h"

namespace horing {

namespace {

// The part of the ranks' deadline that rank 0 may spend on predictions while they wait for it.
constexpr int kPredictingPart = 4;
// Rank 0 sends this text instead of a table; no table has this text.
constexpr const char* kMeasureFirst = "measure";

class Tuning {
 public:
  explicit Tuning(Communicator& communicator)
      : communicator_(communicator), config_(communicator.membership().options().config) {}
  Status run();

 private:
  bool isFirst() const { return membership_.rank() == 0; }
  bool measuresItself() const;
  bool mayFollowRates() const;
  Status learnMachine();
  void logMachine(const MachineModel& machine) const;
  void keepMeasured();
  Status learnRates();
  Status inheritRates(double of_this_rank);
  // `follows`: also later ones.
  void follow(const GroupRates& measured, bool follows);
  Status learnAlgorithms();
  Status chooseByModel();
  Status chooseByKept();
  // Rank 0's text on every rank.
  Result<std::string> textOfFirst(const std::string& text);
  void learned(const MachineModel& machine);
  // If the text is empty, the ranks keep their table.
  Status chooseByText(const std::string& text, std::string found_at);

  Communicator& communicator_;
  const Membership& membership_ = communicator_.membership();
  const Config& config_;
  std::string to_keep_;  // rank 0's table, from measurements of now
};

Status Tuning::run() {
  HORING_TRY(learnAlgorithms());
  const CommunicatorOptions& options = membership_.options();
  if (options.parent_rate) {
    HORING_TRY(inheritRates(*options.parent_rate));
  } else if (measuresItself() || config_.calibrate == kCalibrateAlways) {
    HORING_TRY(learnRates());
  }
  keepMeasured();
  return {};
}

// What was measured over links that differ in speed does not serve jobs whose links are equal.
void Tuning::keepMeasured() {
  if (to_keep_.empty()) return;
  if (!differ(communicator_.choices().rates)) return keepUnlessKnown(communicator_, to_keep_);
  membership_.log().info("init", "the measurements are not kept: the links of groups differ in speed");
}

Status Tuning::learnAlgorithms() {
  const bool by_model = selectsByModel(config_);
  if (by_model && config_.calibrate == kCalibrateNever) return modelNeedsMachine();
  if (by_model || config_.calibrate == kCalibrateAlways || readsMachine(config_)) HORING_TRY(learnMachine());
  if (by_model) return chooseByModel();
  return membership_.placement().first().keeps_tables || measuresItself() ? chooseByKept() : Status();
}

// Inside a node the built-in table is better than predictions (selection/README.md), so a measurement would be of no use.
bool Tuning::measuresItself() const {
  return membership_.placement().first().measures && membership_.placement().map().groups() > 1 &&
         membership_.ranks() <= kMostMeasuredRanks;
}

// Brings rank 0's measurement, or its file, to every rank.
Status Tuning::learnMachine() {
  if (communicator_.choices().machine) return {};
  if (!readsMachine(config_)) {
    HORING_ASSIGN(const Calibration calibration, calibrate(communicator_, CalibrationEffort::kQuick));
    learned(calibration.machine);
    if (isFirst() && !calibration.readings.unequal.empty())
      membership_.log().warn("init", "links of one class differ, and the slowest counts in predictions:\n%s",
                             calibration.readings.unequal.c_str());
  } else {
    HORING_ASSIGN(const MachineModel read,
                  shareMachine(communicator_, isFirst() ? readMachine(config_.calibrate)
                                                        : Result<MachineModel>(MachineModel())));
    learned(read);
  }
  if (isFirst()) logMachine(*communicator_.choices().machine);
  return {};
}

// At info in a line; all of it, and the table that comes of it, are for who looks closer.
void Tuning::logMachine(const MachineModel& machine) const {
  const auto link_text = [](const LinkModel& link, const char* where) {
    return formatString("%.4g us and %.4g GB/s %s groups", link.latency_us, link.gbytes_per_s, where);
  };
  std::string text;
  if (machine.links != Links::kInside) text = link_text(machine.between, "between");
  if (machine.links != Links::kBetween)
    text += (text.empty() ? "" : ", ") + link_text(machine.inside, "inside");
  const Log& log = membership_.log();
  log.info("init", "the machine, by HORING_CALIBRATE=%s: %s; HORING_DEBUG=trace prints all, and the table",
           config_.calibrate.c_str(), text.c_str());
  log.trace("init", "the machine:\n%s", describeMachine(machine).c_str());
}

// Not for reproducible reductions, nor where a table decides. Kernels run no shares, so that ranks with GPUs would lose HO-Ring.
bool Tuning::mayFollowRates() const {
  const Placement& placement = membership_.placement();
  return canFollowRates(placement.shape()) && !config_.reproducible && config_.selection == kSelectionAuto &&
         std::ranges::none_of(placement.identities(),
                              [](const HostIdentity& rank) { return rank.gpu.has_value(); });
}

// Not for children, which got their parent's machine.
Status Tuning::learnRates() {
  if (!mayFollowRates() || membership_.options().machine) return {};
  HORING_ASSIGN(const GroupRates measured, measureGroupRates(communicator_, config_.init_timeout_ms));
  follow(measured, true);
  return {};
}

// Where the parent's ranks ended while their rates changed, they may know different ones: so each rank tells its own.
Status Tuning::inheritRates(double of_this_rank) {
  if (!mayFollowRates()) return {};
  HORING_ASSIGN(const std::vector<double> of_ranks, numbersOfAll(communicator_, of_this_rank));
  const std::vector<double> by_group = ratesOfGroups(of_ranks, membership_.placement().map());
  if (!by_group.empty()) follow({by_group, kUsualMeasuringNs}, membership_.options().follows_rates);
  return {};
}

void Tuning::follow(const GroupRates& measured, bool follows) {
  Choices choices = communicator_.choices();
  choices.rates = withoutNoise(measured.by_group);
  if (isFirst() && differ(choices.rates))
    membership_.log().info(
        "init", "the links of groups differ in speed, large all-reduces follow it (ho_shares); by group:%s",
        ratesText(measured.by_group).c_str());
  communicator_.choose(std::move(choices));
  if (follows && config_.algorithm == kSelectionAuto)
    communicator_.observeCalls(std::make_unique<RateFollower>(communicator_, measured.took_ns));
}

// Rank 0 predicts, and every rank reads rank 0's table, so that all ranks make the same choices.
Status Tuning::chooseByModel() {
  std::string text;
  if (isFirst()) {
    const Placement& placement = membership_.placement();
    MachineModel machine = communicator_.choices().machine.value_or(MachineModel());
    machine.setNodes(placement.map().sizes());
    const SteadyClock clock;
    const Deadline until = Deadline::after(clock, config_.init_timeout_ms / kPredictingPart);
    const Result<std::string> predicted = modelTableText(config_, machine, placement.shape(), &until);
    if (!predicted.ok())
      membership_.log().warn("init", "the built-in table chooses: %s", predicted.status().message().c_str());
    text = predicted.ok() ? predicted.value() : SelectionTable::builtIn().text();
    membership_.log().trace("init", "algorithms, by HORING_SELECTION=%s:\n%s", config_.selection.c_str(),
                            text.c_str());
    if (predicted.ok() && !readsMachine(config_)) to_keep_ = text;
  }
  HORING_ASSIGN(const std::string first, textOfFirst(text));
  return chooseByText(first, "");
}

// Rank 0 looks for a stored table, and every rank reads the one it found. If anything is wrong with that table, the built-in table chooses.
Status Tuning::chooseByKept() {
  KeptTable kept;
  if (isFirst()) {
    kept = findKept(communicator_, measuresItself());
    if (kept.text.empty() && measuresItself()) kept.text = kMeasureFirst;
  }
  HORING_ASSIGN(const std::string first, textOfFirst(kept.text));
  if (first != kMeasureFirst) return chooseByText(first, kept.path);
  HORING_TRY(learnMachine());
  return chooseByModel();
}

void Tuning::learned(const MachineModel& machine) {
  Choices choices = communicator_.choices();
  choices.machine = machine;
  communicator_.choose(std::move(choices));
}

Result<std::string> Tuning::textOfFirst(const std::string& text) {
  HORING_ASSIGN(const auto all, communicator_.allGather(std::as_bytes(std::span(text)),
                                                        "the choice of algorithms, which rank 0 makes"));
  return std::string(reinterpret_cast<const char*>(all[0].data()), all[0].size());
}

Status Tuning::chooseByText(const std::string& text, std::string found_at) {
  if (text.empty()) return {};
  HORING_ASSIGN(SelectionTable table, SelectionTable::parse(text, "the table of rank 0"));
  chooseBy(communicator_, std::move(table), std::move(found_at));
  return {};
}

}  // namespace

void chooseBy(Communicator& communicator, SelectionTable table, std::string found_at) {
  Choices choices = communicator.choices();
  choices.table = std::move(table);
  choices.found_at = std::move(found_at);
  communicator.choose(std::move(choices));
}

Result<std::unique_ptr<Communicator>> createTuned(CommunicatorOptions options) {
  int* const failed_rank = options.failed_rank;
  HORING_ASSIGN(std::unique_ptr<Communicator> made, Communicator::create(std::move(options)));
  const Status tuned = Tuning(*made).run();
  if (!tuned.ok()) {
    if (failed_rank) *failed_rank = made->membership().control().failedRank();
    // Tells the other ranks, so that they need not wait for the deadline.
    made->membership().control().announceError(tuned);
    return tuned;
  }
  logWhoIsWhere(*made);
  return made;
}

}  // namespace horing
