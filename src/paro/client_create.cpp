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

// Of an element: masters and state.
int stateBytesOf(const BucketLayout& bucket, const horingParoConfig_t& config) {
  const int values = (bucket.trainable ? config.stateValues : 0) + (bucket.hasMaster() ? 1 : 0);
  return values * static_cast<int>(bytesOf(bucket.stateType()));
}

// The model that a bucket is, including padding.
horingParoModel_t modelOf(const BucketLayout& bucket, const horingParoConfig_t& config) {
  horingParoModel_t model = HORING_PARO_MODEL_INITIALIZER;
  model.params = bucket.padded.count;
  model.trainable = bucket.trainable ? bucket.padded.count : 0;
  model.microSteps = config.microSteps;
  model.wireBytes = static_cast<int>(bytesOf(bucket.type));
  model.stateBytes = stateBytesOf(bucket, config);
  model.gradBytes = static_cast<int>(bytesOf(bucket.grad_type));
  return model;
}

// The bytes that a rank allocates for parameters, gradients and state.
uint64_t memoryOf(const Row& row, const BucketList& list, const Blocks& blocks, int rank,
                  const horingParoConfig_t& config) {
  uint64_t bytes = 0;
  for (const BucketLayout& bucket : list.buckets)
    bytes += bucketMemory(row, modelOf(bucket, config), bucket.padded, blocks, rank);
  return bytes;
}

size_t gradBuffersOf(const horingParoConfig_t& config) {
  return config.gradBuffers == 0 ? 2 : static_cast<size_t>(config.gradBuffers);
}

struct Choice {
  horingParoStrategy_t strategy;
  const Row* row;
  const Blocks* blocks;
  uint64_t memory;  // of the rank that keeps the most
  int rank;         // which that is
  double seconds;
};

Choice choiceOf(horingParoStrategy_t strategy, const Row& row, const Blocks& blocks, const BucketList& list,
                const horingParoConfig_t& config) {
  Choice choice{strategy, &row, &blocks, 0, 0, 0};
  for (int rank = 0; rank < (blocks.even() ? 1 : blocks.ranks()); ++rank) {
    const uint64_t memory = memoryOf(row, list, blocks, rank, config);
    if (memory > choice.memory) choice.memory = memory, choice.rank = rank;
  }
  return choice;
}

// The same on all ranks.
double secondsOf(const Choice& choice, const BucketList& list, const horingParoConfig_t& config,
                 const horingParoRates_t& rates) {
  const Shares shares = choice.blocks->shares(0);
  double seconds = 0;
  for (const BucketLayout& bucket : list.buckets)
    seconds += paro::secondsOf(collectivesOf(*choice.row, modelOf(bucket, config), shares), 1, rates);
  return seconds;
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
  const std::string where =
      smallest.blocks->even()
          ? "on each rank"
          : formatString("on rank %d, which keeps the most since groups differ in size", smallest.rank);
  return makeStatus(Code::kInvalidArgument,
                    "strategy %s needs %s %s, %s more than the memoryLimit of %s: take one that "
                    "shares out more, or more ranks",
                    smallest.row->name, sizeText(smallest.memory).c_str(), where.c_str(),
                    sizeText(smallest.memory - limit).c_str(), sizeText(limit).c_str());
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
  if (local.ok()) local = client->openBackend();
  HORING_TRY(agree(comm, local));
  HORING_TRY(agreeOn(comm, client->description_));
  const Description& agreed = client->description_;
  client->list_ = layBuckets(agreed.params, agreed.units, agreed.config, client->grid_.blocks());
  HORING_TRY(client->chooseStrategy());
  HORING_TRY(client->grid_.connect(*client->row_));
  HORING_TRY(agree(comm, client->allocate()));
  HORING_TRY(client->useCommunicators());
  return client;
}

Status Client::openBackend() {
  const horingParoMemory_t& memory = description_.memory;
  if (memory.onGpu) {
    HORING_ASSIGN(backend_, makeGpuBackend(memory, grid_));
  } else {
    backend_ = makeHostBackend(memory);
  }
  saver_.emplace(comm_, *backend_, &usage_.snapshotBytes);
  return {};
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
    if (!free && strategy != config.strategy) continue;
    choices.push_back(choiceOf(strategy, *row, grid_.blocksOf(*row), list_, config));
  }
  const Choice smallest = *std::ranges::min_element(choices, {}, &Choice::memory);
  std::erase_if(choices, [&](const Choice& choice) { return choice.memory > limit; });
  if (choices.empty()) return doesNotFit(smallest, limit);
  if (choices.size() > 1 && grid_.blocks().ranks() > 1) {  // one rank alone moves nothing
    HORING_ASSIGN(const horingParoRates_t rates, measureRates(comm_, list_.longestBytes(), *backend_));
    for (Choice& choice : choices) choice.seconds = secondsOf(choice, list_, config, rates);
  }
  const Choice& best = bestOf(choices);
  strategy_ = best.strategy;
  row_ = best.row;
  moves_ = movesOf(*row_);
  memory_ = memoryOf(*row_, list_, *best.blocks, grid_.rank(), config);
  largest_memory_ = best.memory;
  return {};
}

Status Client::allocate() {
  HORING_TRY(param_transfers_.open(*backend_));
  HORING_TRY(grad_transfers_.open(*backend_));
  buckets_.resize(list_.buckets.size());
  grad_buffers_.resize(gradBuffersOf(description_.config));
  size_t trainable = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].layout = list_.buckets[i];
    trainable += buckets_[i].layout.trainable ? 1 : 0;
    HORING_TRY(allocate(buckets_[i]));
  }
  // On every rank, also where a rank receives nothing that it adds up.
  bool folds = false;
  size_t grad_bytes = list_.longestGradBytes();
  for (const Move& move : moves_)
    for (const BucketLayout& bucket : list_.buckets) {
      if (!bucket.trainable || bucket.padded.count == 0 || !grad_transfers_.folds(move)) continue;
      folds = true;
      grad_bytes =
          std::max(grad_bytes, grad_transfers_.scratchCount(move, bucket.padded) * bytesOf(bucket.grad_type));
    }
  // Gradients that stay whole may never be opened: openBuffer() allocates then.
  if (row_->grads == horingParoWhole && !folds) return {};
  for (size_t i = 0; i < std::min(trainable, grad_buffers_.size()); ++i) {
    HORING_ASSIGN(grad_buffers_[i].memory,
                  Memory::allocate(*backend_, "gradients on their way", grad_bytes, &usage_.gradBufferBytes));
  }
  return {};
}

Status Client::allocate(Bucket& bucket) {
  const size_t wire_bytes = bytesOf(bucket.layout.type);
  const auto take = [&](const char* what, horingParoPartition_t partition, size_t element_bytes) {
    return Memory::allocate(*backend_, what, blockOf(bucket, partition).count * element_bytes,
                            &usage_.stateBytes);
  };
  HORING_ASSIGN(bucket.params, take("the parameters of a bucket", row_->params, wire_bytes));
  const size_t state_bytes = bytesOf(bucket.layout.stateType());
  if (bucket.layout.hasMaster()) {
    HORING_ASSIGN(bucket.master, take("the masters of a bucket", row_->state, state_bytes));
  }
  if (!bucket.layout.trainable) return {};
  HORING_ASSIGN(bucket.grads,
                take("the gradients of a bucket", row_->grads, bytesOf(bucket.layout.grad_type)));
  for (int i = 0; i < description_.config.stateValues; ++i) {
    HORING_ASSIGN(Memory values, take("the optimizer's values of a bucket", row_->state, state_bytes));
    bucket.state.push_back(std::move(values));
  }
  return {};
}

}  // namespace horing::paro
