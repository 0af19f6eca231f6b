// How a client is made: all ranks agree on what, choose how, and only then take memory.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "paro/client.h"
#include "paro/convert.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

// "80.000 GiB", in a unit that leaves something before the point.
std::string sizeText(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1 << 30) return formatString("%.3f GiB", value / (1 << 30));
  if (bytes >= 1 << 20) return formatString("%.3f MiB", value / (1 << 20));
  return formatString("%.0f bytes", value);
}

// What a bucket costs; with all its padding, so that memory is what will be allocated.
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
                        .stateBytes = values * static_cast<int>(bytesOf(stateTypeOf(bucket.type)))});
}

struct Cost {
  uint64_t memory = 0;
  uint64_t slow = 0;
  uint64_t fast = 0;
  bool isBetter(const Cost& other) const {
    return std::tuple(slow, fast, memory) < std::tuple(other.slow, other.fast, other.memory);
  }
};

Result<Cost> costOf(const Row& row, const BucketList& list, const Shape& shape,
                    const horingParoConfig_t& config) {
  Cost sum;
  for (const BucketLayout& bucket : list.buckets) {
    HORING_ASSIGN(const horingParoEstimate_t cost, costOf(row, bucket, shape, config));
    sum.memory += cost.memoryBytes;
    sum.slow += cost.slowBytes;
    sum.fast += cost.fastBytes;
  }
  return sum;
}

Status doesNotFit(const Row& row, uint64_t needs, uint64_t limit) {
  return makeStatus(Code::kInvalidArgument,
                    "strategy %s needs %s on each rank, %s more than the memoryLimit of %s: take one that "
                    "shares out more, or more ranks",
                    row.name, sizeText(needs).c_str(), sizeText(needs - limit).c_str(),
                    sizeText(limit).c_str());
}

}  // namespace

Client::Client(horingComm_t comm, Description description)
    : comm_(comm),
      description_(std::move(description)),
      grid_(comm),
      param_transfers_(grid_),
      grad_transfers_(grid_) {}

Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::create(horingComm_t comm, Description description,
                                               const Status& refused) {
  std::unique_ptr<Client> client(new Client(comm, std::move(description)));
  Status local = refused;
  if (local.ok()) local = client->grid_.look();
  HORING_TRY(agree(comm, local));
  HORING_TRY(agreeOn(comm, client->description_));
  const horingParoConfig_t& config = client->description_.config;
  const size_t bucket_bytes = config.bucketBytes ? config.bucketBytes : kDefaultBucketBytes;
  client->list_ = layBuckets(client->description_.params, client->description_.units, bucket_bytes,
                             client->grid_.shape().ranks());
  HORING_TRY(client->chooseStrategy());
  HORING_TRY(client->grid_.connect(*client->row_));
  HORING_TRY(agree(comm, client->allocate()));
  return client;
}

// From what all ranks know alike, so that they choose alike.
Status Client::chooseStrategy() {
  const horingParoConfig_t& config = description_.config;
  const bool free = config.strategy == horingParoAuto;
  const uint64_t limit = config.memoryLimit ? config.memoryLimit : UINT64_MAX;
  std::optional<Cost> best, smallest;
  const Row* smallest_row = nullptr;
  for (int number = 0; number < horingParoNumStrategies; ++number) {
    const auto strategy = static_cast<horingParoStrategy_t>(number);
    HORING_ASSIGN(const Row* const row, findRow(strategy));
    if (free ? needsGroups(*row) && !grid_.isGrid() : strategy != config.strategy) continue;
    HORING_ASSIGN(const Cost cost, costOf(*row, list_, grid_.shape(), config));
    if (!smallest || cost.memory < smallest->memory) {
      smallest = cost;
      smallest_row = row;
    }
    if (cost.memory > limit || (best && !cost.isBetter(*best))) continue;
    best = cost;
    strategy_ = strategy;
    row_ = row;
  }
  if (!row_) return doesNotFit(*smallest_row, smallest->memory, limit);
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
  HORING_ASSIGN(bucket.grads, take(row_->grads, wire_bytes));
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
