#include "horing_paro/train/training.h"

#include <chrono>
#include <cmath>

#include "horing_paro/train/communicator.h"
#include "horing_paro/train/corpus.h"

namespace horing::paro {

namespace {

horingDataType_t wireTypeOf(Precision precision) {
  return precision == Precision::kFloat64   ? horingFloat64
         : precision == Precision::kFloat32 ? horingFloat32
                                            : horingBfloat16;
}

// Bytes of an element of the wire, and of its state beside the parameter.
horingParoModel_t modelOf(const horingParoInfo_t& info, const Groups& groups,
                          const TrainingSettings& settings) {
  const Precision precision = settings.precision;
  const int wire = precision == Precision::kFloat64 ? 8 : precision == Precision::kFloat32 ? 4 : 2;
  return {.size = sizeof(horingParoModel_t),
          .groups = info.groups,
          .ranksPerGroup = info.ranksPerGroup,
          .params = info.params,
          .trainable = info.trainable,
          .microSteps = settings.sharding.micro_steps,
          .wireBytes = wire,
          .stateBytes = precision == Precision::kMixed ? 12 : 2 * wire,
          .groupSizes = info.ranksPerGroup ? nullptr : groups.sizes.data(),
          .group = groups.own,
          .localIndex = groups.local};
}

Status checkSettings(const TrainingSettings& settings) {
  const char* wrong = nullptr;
  if (settings.shape.context < 1 || settings.shape.embedding < 1 || settings.shape.hidden < 1 ||
      settings.shape.hidden_layers < 1)
    wrong = "context, embedding, hidden width and hidden layers have to be at least 1";
  else if (static_cast<size_t>(settings.shape.context) >= corpus().size())
    wrong = "the context is longer than the text";
  else if (settings.steps < 1 || settings.tokens < 1 || settings.sharding.micro_steps < 1)
    wrong = "steps, tokens and micro-steps have to be at least 1";
  else if (settings.frozen_layers < 0 || settings.frozen_layers >= settings.shape.layers())
    wrong = "at least one layer has to be trained";
  return wrong ? makeStatus(Code::kInvalidArgument, "%s", wrong) : Status();
}

// One rank's training. Real is the type of the computation.
template <typename Real>
class Trainer {
 public:
  Trainer(horingComm_t comm, const TrainingSettings& settings)
      : comm_(comm),
        settings_(settings),
        network_(settings.shape, settings.tokens),
        batches_(corpus(), settings.shape.context, settings.seed) {}

  Status open() {
    HORING_ASSIGN(place_, placeIn(comm_));
    std::vector<horingParoParam_t> layers;
    for (int layer = 0; layer < settings_.shape.layers(); ++layer)
      layers.push_back({settings_.shape.parameters(layer), wireTypeOf(settings_.precision),
                        layer >= settings_.frozen_layers});
    HORING_ASSIGN(layers_, ShardedLayers::create(comm_, settings_.sharding, layers));
    layers_->stopAt(settings_.frozen_layers);
    if (!settings_.save_folder.empty())  // checked now rather than after the last step
      HORING_TRY(statusOfParo(horingParoCheckFolder(layers_->client(), settings_.save_folder.c_str())));
    return settings_.load_folder.empty() ? setParameters() : load();
  }

  Result<TrainingReport> run(const Progress& progress) {
    TrainingReport report;
    HORING_TRY(statusOfParo(horingParoGetUsage(layers_->client(), &before_)));
    auto before = std::chrono::steady_clock::now();
    for (int number = loaded_step_ + 1; number <= settings_.steps; ++number) {
      HORING_ASSIGN(const double loss, step(number));
      if (!std::isfinite(loss))
        return makeStatus(
            Code::kInvalidArgument,
            "the loss is %g in step %d: training has diverged, take a lower learning rate than %g", loss,
            number, settings_.adam.learning_rate);
      const auto now = std::chrono::steady_clock::now();
      report.steps.push_back({number, loss, std::chrono::duration<double>(now - before).count()});
      before = now;
      if (progress) progress(report.steps.back());
    }
    HORING_TRY(complete(report));
    if (!settings_.save_folder.empty())
      HORING_TRY(statusOfParo(horingParoSave(layers_->client(), settings_.save_folder.c_str(),
                                             static_cast<uint64_t>(settings_.steps))));
    return report;
  }

 private:
  Status load() {
    uint64_t step = 0;
    HORING_TRY(statusOfParo(horingParoLoad(layers_->client(), settings_.load_folder.c_str(), &step)));
    if (step >= static_cast<uint64_t>(settings_.steps))
      return makeStatus(Code::kInvalidArgument,
                        "%s is of step %llu, and there are to be %d steps in all: expected more to do",
                        settings_.load_folder.c_str(), static_cast<unsigned long long>(step),
                        settings_.steps);
    loaded_step_ = static_cast<int>(step);
    return {};
  }

  Status setParameters() {
    const bool wide = settings_.precision == Precision::kFloat64;
    for (int layer = 0; layer < settings_.shape.layers(); ++layer) {
      const std::vector<double> values = initialParameters(settings_.shape, layer, settings_.seed);
      const std::vector<float> narrow(values.begin(), values.end());
      HORING_TRY(
          statusOfParo(horingParoSetParam(layers_->client(), static_cast<size_t>(layer),
                                          wide ? static_cast<const void*>(values.data()) : narrow.data(),
                                          values.size(), wide ? horingFloat64 : horingFloat32)));
    }
    return {};
  }

  // Returns the batch's mean loss.
  Result<double> step(int number) {
    double loss = 0;
    for (int micro_step = 0; micro_step < settings_.sharding.micro_steps; ++micro_step) {
      beginMicroStep(number, micro_step);
      HORING_TRY(goUp());
      HORING_TRY(goDown());
      loss += network_.loss();
    }
    HORING_TRY(statusOfParo(horingParoSyncGrads(layers_->client())));
    HORING_TRY(layers_->update([&](const horingParoShard_t& shard) {
      if (settings_.work == Work::kTrain) updateWithAdam(settings_.adam, number, shard);
    }));
    if (settings_.work == Work::kTrain)  // between the client's calls: none of its collectives is in flight
      HORING_TRY(statusOfHoring(horingAllReduce(&loss, &loss, 1, horingFloat64, horingSum, comm_, nullptr)));
    HORING_TRY(statusOfParo(horingParoSyncParams(layers_->client())));
    return loss / static_cast<double>(batchSize());
  }

  int64_t batchSize() const {
    return static_cast<int64_t>(place_.ranks) * settings_.sharding.micro_steps * settings_.tokens;
  }

  void beginMicroStep(int number, int micro_step) {
    if (settings_.work == Work::kReplay) return;
    std::vector<Example> examples;
    const int64_t first = (static_cast<int64_t>(micro_step) * place_.ranks + place_.rank) * settings_.tokens;
    for (int token = 0; token < settings_.tokens; ++token)
      examples.push_back(batches_.example(number, first + token));
    network_.begin(examples);
  }

  Status goUp() {
    for (int layer = 0; layer < settings_.shape.layers(); ++layer) {
      HORING_ASSIGN(const void* const values, layers_->enter(layer, Direction::kUp));
      if (settings_.work == Work::kTrain) network_.forward(layer, parametersOf(layer, values));
      HORING_TRY(layers_->leave(layer, Direction::kUp));
    }
    return {};
  }

  Status goDown() {
    // The client averages over ranks; the average over micro-steps and tokens is computed here.
    const Real scale = Real{1} / static_cast<Real>(settings_.sharding.micro_steps * settings_.tokens);
    for (int layer = settings_.shape.layers() - 1; layer >= settings_.frozen_layers; --layer) {
      HORING_ASSIGN(const void* const values, layers_->enter(layer, Direction::kDown));
      HORING_ASSIGN(void* const gradient, layers_->gradient(layer));
      if (settings_.work == Work::kTrain) goDown(layer, parametersOf(layer, values), scale, gradient);
      HORING_TRY(layers_->leave(layer, Direction::kDown));
    }
    return {};
  }

  void goDown(int layer, const Real* parameters, Real scale, void* gradient) {
    if (settings_.precision != Precision::kMixed)
      return network_.backward(layer, parameters, scale, static_cast<Real*>(gradient));
    const size_t count = settings_.shape.parameters(layer);
    gradient_.assign(count, 0);
    network_.backward(layer, parameters, scale, gradient_.data());
    (void)horingParoConvert(gradient_.data(), horingFloat32, gradient, horingBfloat16, count);
  }

  // In the type of the computation; valid until the next call.
  const Real* parametersOf(int layer, const void* values) {
    if (settings_.precision != Precision::kMixed) return static_cast<const Real*>(values);
    const size_t count = settings_.shape.parameters(layer);
    parameters_.resize(count);
    (void)horingParoConvert(values, horingBfloat16, parameters_.data(), horingFloat32, count);
    return parameters_.data();
  }

  Status complete(TrainingReport& report) const {
    HORING_TRY(statusOfParo(horingParoGetInfo(layers_->client(), &report.info)));
    HORING_TRY(statusOfParo(horingParoGetUsage(layers_->client(), &report.usage)));
    report.step_slow_bytes = (report.usage.slowBytes - before_.slowBytes) / report.steps.size();
    report.step_fast_bytes = (report.usage.fastBytes - before_.fastBytes) / report.steps.size();
    HORING_ASSIGN(report.groups, groupsIn(comm_));
    const horingParoModel_t model = modelOf(report.info, report.groups, settings_);
    HORING_TRY(statusOfParo(horingParoGetEstimate(report.info.strategy, &model, &report.estimate)));
    report.node_slow_bytes.assign(report.groups.sizes.size(), 0);
    report.node_slow_bytes[static_cast<size_t>(report.groups.own)] = report.step_slow_bytes;
    uint64_t* const sums = report.node_slow_bytes.data();
    return statusOfHoring(
        horingAllReduce(sums, sums, report.node_slow_bytes.size(), horingUint64, horingSum, comm_, nullptr));
  }

  const horingComm_t comm_;
  const TrainingSettings settings_;
  Place place_;
  Network<Real> network_;
  Batches batches_;
  std::unique_ptr<ShardedLayers> layers_;
  int loaded_step_ = 0;
  horingParoUsage_t before_ = HORING_PARO_USAGE_INITIALIZER;  // the first step
  std::vector<Real> parameters_, gradient_;                   // of one layer, if the wire type differs
};

template <typename Real>
Result<TrainingReport> trainIn(horingComm_t comm, const TrainingSettings& settings,
                               const Progress& progress) {
  Trainer<Real> trainer(comm, settings);
  HORING_TRY(trainer.open());
  return trainer.run(progress);
}

}  // namespace

Result<TrainingReport> train(horingComm_t comm, const TrainingSettings& settings, const Progress& progress) {
  HORING_TRY(checkSettings(settings));
  return settings.precision == Precision::kFloat64 ? trainIn<double>(comm, settings, progress)
                                                   : trainIn<float>(comm, settings, progress);
}

}  // namespace horing::paro
