// Creates a client: all ranks agree on the arguments, choose a strategy, and only then allocate memory.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "paro/client.h"
#include "paro/convert.h"
#include "paro/rates.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

// "80.000 GiB", in the largest unit with a nonzero integer part.
std::string sizeText(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1 << 30) return formatString("%.3f GiB", value / (1 << 30));
  if (bytes >= 1 << 20) return formatString("%.3f MiB", value / (1 << 20));
  return formatString("%.0f bytes", value);
}

// The cost of a bucket, including padding, so that memory is the allocated size.
Result<horingParoEstimate_t> costOf(const Row& row, const BucketLayout& bucket, const Shape& shape,
                                    const horingParoConfig_t& config) {
  const int wire_bytes = static_cast<int>(bytesOf(bucket.type));
  const int values = config.stateValues + (stateTypeOf(bucket.type) == bucket.type ? 0 : 1);
  const uint64_t trainable = bucket.trainable ? bucket.padded : 0;
  return estimate(row, {.groups = shape.groups,
                        .ranksPerGroup = shape.members,
                        .params = bucket.padded,
                        .trainable = trainable,
                        .microSteps = config.microSteps,
                        .wireBytes = wire_bytes,
                        .stateBytes = values * static_cast<int>(bytesOf(stateTypeOf(bucket.type))),
                        .gradBytes = static_cast<int>(bytesOf(bucket.grad_type))});
}

struct Choice {
  horingParoStrategy_t strategy;
  const Row* row;
  uint64_t memory;
  std::vector<horingParoEstimate_t> costs;  // by bucket
  double seconds;
};

Result<Choice> choiceOf(horingParoStrategy_t strategy, const Row& row, const BucketList& list,
                        const Shape& shape, const horingParoConfig_t& config) {
  Choice choice{strategy, &row, 0, {}, 0};
  for (const BucketLayout& bucket : list.buckets) {
    HORING_ASSIGN(const horingParoEstimate_t cost, costOf(row, bucket, shape, config));
    choice.memory += cost.memoryBytes;
    choice.costs.push_back(cost);
  }
  return choice;
}

// A strategy that takes no longer than this times the fastest is as fast.
constexpr double kAsFast = 1.02;

// Of those that are as fast as the fastest, the one that needs the least memory.
const Choice& bestOf(const std::vector<Choice>& choices) {
  const double least = std::ranges::min_element(choices, {}, &Choice::seconds)->seconds;
  return *std::ranges::min_element(choices, {}, [&](const Choice& choice) {
    return std::pair(choice.seconds > kAsFast * least, choice.memory);
  });
}

Status doesNotFit(const Choice& smallest, uint64_t limit) {
  return makeStatus(Code::kInvalidArgument,
                    "strategy %s needs %s on each rank, %s more than the memoryLimit of %s: take one that "
                    "shares out more, or more ranks",
                    smallest.row->name, sizeText(smallest.memory).c_str(),
                    sizeText(smallest.memory - limit).c_str(), sizeText(limit).c_str());
}

}  // namespace

Client::Client(horingComm_t comm, Description description)
    : comm_(comm),
      description_(std::move(description)),
      grid_(comm),
      param_transfers_(grid_),
      grad_transfers_(grid_),
      saver_(comm, &usage_.snapshotBytes) {}

Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::create(horingComm_t comm, Description description,
                                               const Status& refused) {
  std::unique_ptr<Client> client(new Client(comm, std::move(description)));
  Status local = refused;
  if (local.ok()) local = client->grid_.look();
  HORING_TRY(agree(comm, local));
  HORING_TRY(agreeOn(comm, client->description_));
  const Description& agreed = client->description_;
  client->list_ = layBuckets(agreed.params, agreed.units, agreed.config, client->grid_.shape().ranks());
  HORING_TRY(client->chooseStrategy());
  HORING_TRY(client->grid_.connect(*client->row_));
  HORING_TRY(agree(comm, client->allocate()));
  return client;
}

// Uses only values that are equal on all ranks, so that all choose the same.
Status Client::chooseStrategy() {
  const horingParoConfig_t& config = description_.config;
  const bool free = config.strategy == horingParoAuto;
  const uint64_t limit = config.memoryLimit ? config.memoryLimit : UINT64_MAX;
  std::vector<Choice> choices;
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    const auto strategy = static_cast<horingParoStrategy_t>(number);
    HORING_ASSIGN(const Row* const row, findRow(strategy));
    if (free ? needsGroups(*row) && !grid_.isGrid() : strategy != config.strategy) continue;
    HORING_ASSIGN(const Choice choice, choiceOf(strategy, *row, list_, grid_.shape(), config));
    choices.push_back(choice);
  }
  const Choice smallest = *std::ranges::min_element(choices, {}, &Choice::memory);
  std::erase_if(choices, [&](const Choice& choice) { return choice.memory > limit; });
  if (choices.empty()) return doesNotFit(smallest, limit);
  if (choices.size() > 1 && grid_.shape().ranks() > 1) {  // one rank alone moves nothing
    HORING_ASSIGN(const horingParoRates_t rates, measureRates(comm_, list_.longestBytes()));
    for (Choice& choice : choices)
      for (const horingParoEstimate_t& cost : choice.costs) choice.seconds += secondsOf(cost, 1, rates);
  }
  const Choice& best = bestOf(choices);
  strategy_ = best.strategy;
  row_ = best.row;
  moves_ = movesOf(*row_);
  return {};
}

Status Client::allocate() {
  HORING_TRY(param_transfers_.open());
  HORING_TRY(grad_transfers_.open());
  buckets_.resize(list_.buckets.size());
  int trainable = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].layout = list_.buckets[i];
    trainable += buckets_[i].layout.trainable;
    HORING_TRY(allocate(buckets_[i]));
  }
  for (int i = 0; i < std::min(trainable, 2); ++i) {
    HORING_ASSIGN(grad_buffers_[i].memory,
                  Memory::allocate(list_.longestGradBytes(), &usage_.gradBufferBytes));
  }
  return {};
}

Status Client::allocate(Bucket& bucket) {
  const size_t wire_bytes = bytesOf(bucket.layout.type);
  const auto take = [&](horingParoPartition_t partition, size_t element_bytes) {
    return Memory::allocate(blockOf(bucket, partition).count * element_bytes, &usage_.stateBytes);
  };
  HORING_ASSIGN(bucket.params, take(row_->params, wire_bytes));
  if (!bucket.layout.trainable) return {};
  HORING_ASSIGN(bucket.grads, take(row_->grads, bytesOf(bucket.layout.grad_type)));
  const horingDataType_t state_type = stateTypeOf(bucket.layout.type);
  if (state_type != bucket.layout.type) {
    HORING_ASSIGN(bucket.master, take(row_->state, bytesOf(state_type)));
  }
  for (int i = 0; i < description_.config.stateValues; ++i) {
    HORING_ASSIGN(Memory values, take(row_->state, bytesOf(state_type)));
    bucket.state.push_back(std::move(values));
  }
  return {};
}

}  // namespace horing::paro
