#include "paro/client.h"

#include <algorithm>
#include <cmath>

#include "paro/convert.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

Status outOfOrder(const char* what, int bucket, const char* expected) {
  return makeStatus(Code::kInvalidUsage, "bucket %d %s: expected %s", bucket, what, expected);
}

}  // namespace

// ---- Queries ----

horingParoInfo_t Client::info() const {
  const Blocks& blocks = grid_.blocks();
  return {.size = sizeof(horingParoInfo_t),
          .strategy = strategy_,
          .groups = blocks.groups(),
          .ranksPerGroup = blocks.even() ? blocks.ranks() / blocks.groups() : 0,
          .numBuckets = static_cast<int>(buckets_.size()),
          .params = list_.params,
          .trainable = list_.trainable,
          .memoryBytes = memory_,
          .largestMemoryBytes = largest_memory_};
}

horingParoUsage_t Client::usage() const {
  horingParoUsage_t usage = usage_;
  usage.slowBytes =
      static_cast<uint64_t>(std::llround(param_transfers_.sent().slow + grad_transfers_.sent().slow));
  usage.fastBytes =
      static_cast<uint64_t>(std::llround(param_transfers_.sent().fast + grad_transfers_.sent().fast));
  return usage;
}

Status Client::mayCall() {
  grid_.followTimeout();
  HORING_TRY(failed_);
  HORING_TRY(backend_->error());
  return backend_->checkNotRecorded();
}

// A driver that has failed does not keep a client.
Status Client::mayEnd() {
  grid_.followTimeout();
  Status recorded = backend_->checkNotRecorded();
  return recorded.code() == Code::kInvalidUsage ? recorded : Status();
}

Status Client::checkParam(size_t param) const {
  if (param < list_.places.size()) return {};
  return makeStatus(Code::kInvalidArgument, "parameter %zu does not exist: there are %zu, counted from 0",
                    param, list_.places.size());
}

Result<horingParoPlace_t> Client::place(size_t param) const {
  HORING_TRY(checkParam(param));
  return list_.places[param];
}

Result<Client::Bucket*> Client::find(int bucket) {
  HORING_TRY(mayCall());
  if (bucket >= 0 && static_cast<size_t>(bucket) < buckets_.size())
    return &buckets_[static_cast<size_t>(bucket)];
  return makeStatus(Code::kInvalidArgument, "bucket %d does not exist: there are %zu, counted from 0", bucket,
                    buckets_.size());
}

Result<Client::Bucket*> Client::findTrainable(int bucket) {
  HORING_ASSIGN(Bucket* const found, find(bucket));
  if (found->layout.trainable) return found;
  return outOfOrder("is frozen and has no gradients", bucket, "a trainable bucket");
}

Result<horingParoBucket_t> Client::bucketInfo(int bucket) const {
  if (bucket < 0 || static_cast<size_t>(bucket) >= buckets_.size())
    return makeStatus(Code::kInvalidArgument, "bucket %d does not exist: there are %zu, counted from 0",
                      bucket, buckets_.size());
  const BucketLayout& layout = buckets_[static_cast<size_t>(bucket)].layout;
  return horingParoBucket_t{layout.type, layout.trainable, layout.count, layout.grad_type,
                            layout.hasMaster() ? layout.stateType() : layout.type};
}

// ---- Blocks ----

Range Client::blockOf(const Bucket& bucket, horingParoPartition_t partition) const {
  return grid_.block(partition, bucket.layout.padded);
}

std::byte* Client::shardIn(const Bucket& bucket, const Memory& memory, horingParoPartition_t partition,
                           horingDataType_t type) const {
  const size_t offset = blockOf(bucket, row_->state).first - blockOf(bucket, partition).first;
  return memory.data() + offset * bytesOf(type);
}

// Stores the values that fall into this rank's blocks of parameters and state.
Status Client::store(Bucket& bucket, Range range, const std::byte* values, horingDataType_t type) {
  const auto put = [&](const Memory& memory, horingParoPartition_t partition,
                       horingDataType_t kept_type) -> Status {
    const Range block = blockOf(bucket, partition);
    const auto [from, count] = overlapOf(range, block);
    if (count == 0) return {};
    return backend_->take(values + (from - range.first) * bytesOf(type), type,
                          memory.data() + (from - block.first) * bytesOf(kept_type), kept_type, count);
  };
  HORING_TRY(put(bucket.params, row_->params, bucket.layout.type));
  return bucket.master ? put(bucket.master, row_->state, bucket.layout.stateType()) : Status();
}

// ---- Data movement ----

Status Client::issue(Transfers& transfers, const Move& move, Bucket& bucket, std::byte* block,
                     const std::byte* own) {
  const bool averages = movesGrads(move) && description_.config.average;
  const horingDataType_t type = movesGrads(move) ? bucket.layout.grad_type : bucket.layout.type;
  return failWith(transfers.issue(move, {block, own, bucket.layout.padded, type}, averages));
}

Status Client::failWith(const Status& status) {
  if (failed_.ok()) failed_ = grid_.explain(status);
  return failed_;
}

// What was issued cannot be waited for if it has no mark.
Status Client::mark(const Transfers& transfers, Completion& completion) {
  Result<Completion> marked = transfers.completion();
  HORING_TRY(failWith(marked.status()));
  completion = marked.take();
  return {};
}

Status Client::issueSync(horingParoPhase_t phase, Transfers& transfers, Bucket& bucket,
                         const Memory& memory) {
  const bool grads = phase == horingParoPhaseSyncGrads;
  const horingParoPartition_t kept = grads ? row_->grads : row_->params;
  const size_t element_bytes = bytesOf(grads ? bucket.layout.grad_type : bucket.layout.type);
  for (const Move& move : moves_) {
    if (move.phase != phase) continue;
    const size_t offset = blockOf(bucket, move.coarse).first - blockOf(bucket, kept).first;
    std::byte* const block = memory.data() + offset * element_bytes;
    HORING_TRY(transfers.folds(move) ? startFold(move, bucket, block)
                                     : issue(transfers, move, bucket, block));
  }
  return {};
}

Status Client::await(const Completion& completion) {
  HORING_TRY(failWith(completion.await()));
  return failWith(grid_.news());
}

// ---- Parameters ----

Status Client::setParam(size_t param, const Values& values) {
  HORING_TRY(checkParam(param));
  const horingParoPlace_t& place = list_.places[param];
  HORING_ASSIGN(Bucket* const bucket, find(place.bucket));
  if (phase_ != Phase::kMicroSteps || bucket->reductions > 0 || openBufferOf(place.bucket).ok())
    return outOfOrder("is within an optimizer step", place.bucket,
                      "horingParoSyncParams before horingParoSetParam");
  if (bucket->is_gathered)
    return outOfOrder("is gathered", place.bucket, "horingParoReleaseParams before horingParoSetParam");
  if (values.type != bucket->layout.own_type && values.type != horingFloat32)
    return makeStatus(Code::kInvalidArgument, "type is %s, and %s has %s: expected that or float32",
                      nameOf(values.type), labelOf(description_.names, param).c_str(),
                      nameOf(bucket->layout.own_type));
  if (values.count != place.count)
    return makeStatus(Code::kInvalidArgument, "count is %zu, and %s has %zu elements: expected all",
                      values.count, labelOf(description_.names, param).c_str(), place.count);
  if (!values.data && place.count > 0)
    return makeStatus(Code::kInvalidArgument, "values is NULL: expected the %zu elements of %s", place.count,
                      labelOf(description_.names, param).c_str());
  if (place.count > 0) HORING_TRY(backend_->checkTakeable(values.data, labelOf(description_.names, param)));
  HORING_TRY(await(bucket->params_ready));
  return store(*bucket, {place.offset, place.count}, static_cast<const std::byte*>(values.data), values.type);
}

Result<Client::Bucket*> Client::findGatherable(int number) {
  HORING_ASSIGN(Bucket* const bucket, find(number));
  if (phase_ != Phase::kMicroSteps)
    return outOfOrder("is being updated", number, "horingParoSyncParams before horingParoGatherParams");
  if (bucket->is_gathered) return outOfOrder("is gathered already", number, "horingParoReleaseParams");
  return bucket;
}

Status Client::gatherParams(int number) {
  HORING_ASSIGN(Bucket* const bucket, findGatherable(number));
  if (row_->params != horingParoWhole && bucket->layout.padded.count > 0) {
    HORING_ASSIGN(bucket->gathered, takeGathered(bucket->layout.padded.count * bytesOf(bucket->layout.type)));
    HORING_TRY(
        issue(param_transfers_, moves_.front(), *bucket, bucket->gathered.data(), bucket->params.data()));
    HORING_TRY(mark(param_transfers_, bucket->params_ready));
  }
  bucket->is_gathered = true;
  bucket->gathered_type = bucket->layout.type;
  return {};
}

// From the blocks among all ranks, whatever the strategy: these are parts of the blocks of state.
Status Client::gatherMasters(int number) {
  HORING_ASSIGN(Bucket* const bucket, findGatherable(number));
  if (!bucket->layout.hasMaster()) return gatherParams(number);
  const horingDataType_t type = bucket->layout.stateType();
  const Range kept = blockOf(*bucket, row_->state), mine = blockOf(*bucket, horingParoByAll);
  HORING_TRY(await(bucket->params_ready));
  HORING_ASSIGN(bucket->gathered, allocateGathered(bucket->layout.padded.count * bytesOf(type)));
  HORING_TRY(backend_->copy(bucket->gathered.data() + mine.first * bytesOf(type),
                            bucket->master.data() + (mine.first - kept.first) * bytesOf(type),
                            mine.count * bytesOf(type)));
  HORING_TRY(spread(*bucket, bucket->gathered.data(), horingParoWhole, type));
  bucket->is_gathered = true;
  bucket->gathered_type = type;
  return {};
}

Result<const void*> Client::param(size_t param) {
  HORING_TRY(checkParam(param));
  const horingParoPlace_t& place = list_.places[param];
  HORING_ASSIGN(Bucket* const bucket, find(place.bucket));
  if (!bucket->is_gathered) return outOfOrder("is not gathered", place.bucket, "horingParoGatherParams");
  HORING_TRY(await(bucket->params_ready));
  const Memory& whole = bucket->gathered ? bucket->gathered : bucket->params;
  return static_cast<const void*>(whole.data() + place.offset * bytesOf(bucket->gathered_type));
}

Status Client::releaseParams(int number) {
  HORING_ASSIGN(Bucket* const bucket, find(number));
  if (!bucket->is_gathered) return outOfOrder("is not gathered", number, "horingParoGatherParams");
  HORING_TRY(await(bucket->params_ready));
  bucket->is_gathered = false;
  if (!bucket->gathered) return {};
  Memory gathered = std::exchange(bucket->gathered, Memory());
  if (bucket->gathered_type != bucket->layout.type) return freeWhileIdle(std::move(gathered));
  spare_.push_back(std::move(gathered));
  return {};
}

// ---- Gradients ----

Result<Client::GradBuffer*> Client::openBufferOf(int bucket) {
  for (GradBuffer& buffer : grad_buffers_)
    if (buffer.use == GradBuffer::Use::kOpen && buffer.bucket == bucket) return &buffer;
  return outOfOrder("has no open gradients", bucket, "horingParoOpenGrads");
}

Result<Client::Bucket*> Client::findOpenable(int bucket) {
  HORING_ASSIGN(Bucket* const found, findTrainable(bucket));
  if (phase_ != Phase::kMicroSteps)
    return outOfOrder("is being updated", bucket, "horingParoSyncParams before horingParoOpenGrads");
  if (openBufferOf(bucket).ok())
    return outOfOrder("has open gradients already", bucket, "horingParoReduceGrads");
  return found;
}

Status Client::openGrads(int number) {
  HORING_ASSIGN(GradBuffer* const buffer, openBuffer(number));
  const BucketLayout& layout = list_.buckets[static_cast<size_t>(number)];
  return backend_->clear(buffer->memory.data(), layout.padded.count * bytesOf(layout.grad_type));
}

Result<Client::GradBuffer*> Client::openBuffer(int number) {
  HORING_ASSIGN(Bucket* const bucket, findOpenable(number));
  const size_t bytes = bucket->layout.padded.count * bytesOf(bucket->layout.grad_type);
  const auto find_free = [&]() -> GradBuffer* {
    for (GradBuffer& buffer : grad_buffers_)
      if (buffer.use == GradBuffer::Use::kFree && buffer.memory.bytes() >= bytes) return &buffer;
    return nullptr;
  };
  GradBuffer* buffer = find_free();
  if (!buffer && !reducing_.empty()) {
    HORING_TRY(collectOldest());
    buffer = find_free();
  }
  if (!buffer && row_->grads == horingParoWhole) {
    const auto absent = std::ranges::find_if(grad_buffers_, [](const GradBuffer& each) {
      return !each.memory && each.use == GradBuffer::Use::kFree;
    });
    if (absent != grad_buffers_.end()) {
      HORING_ASSIGN(absent->memory, allocateGradBuffer());
      buffer = &*absent;
    }
  }
  if (!buffer)
    return makeStatus(Code::kInvalidUsage,
                      "bucket %d would be one more with open gradients than the %zu buffers: expected "
                      "horingParoReduceGrads of one of the others, or more config.gradBuffers",
                      number, grad_buffers_.size());
  buffer->use = GradBuffer::Use::kOpen;
  buffer->bucket = number;
  return buffer;
}

Result<void*> Client::grad(size_t param) {
  HORING_TRY(mayCall());
  HORING_TRY(checkParam(param));
  const horingParoPlace_t& place = list_.places[param];
  HORING_ASSIGN(GradBuffer* const buffer, openBufferOf(place.bucket));
  const horingDataType_t type = list_.buckets[static_cast<size_t>(place.bucket)].grad_type;
  return static_cast<void*>(buffer->memory.data() + place.offset * bytesOf(type));
}

Status Client::reduceGrads(int number) {
  HORING_ASSIGN(Bucket* const bucket, findTrainable(number));
  HORING_ASSIGN(GradBuffer* const buffer, openBufferOf(number));
  if (row_->grads != horingParoWhole && bucket->layout.padded.count > 0) {
    for (const Move& move : moves_)
      if (move.phase == horingParoPhaseReduce)
        HORING_TRY(issue(grad_transfers_, move, *bucket, buffer->memory.data()));
    HORING_TRY(mark(grad_transfers_, buffer->reduced));
  }
  ++bucket->reductions;
  buffer->use = GradBuffer::Use::kReducing;
  reducing_.push_back(buffer);
  // Without a collective there is nothing to wait for: collects at once.
  return row_->grads == horingParoWhole ? collectAll() : Status();
}

Status Client::reduceGradsOf(int number, std::span<const void* const> grads) {
  HORING_ASSIGN(Bucket* const bucket, findOpenable(number));
  const std::vector<size_t>& params = bucket->layout.params;
  HORING_TRY(checkGrads(number, params, grads));
  if (row_->grads != horingParoWhole) {
    HORING_ASSIGN(GradBuffer* const buffer, openBuffer(number));
    HORING_TRY(copyGrads(*bucket, grads, buffer->memory.data()));
    return reduceGrads(number);
  }
  const horingDataType_t type = bucket->layout.grad_type;
  if (!bucket->has_grads) {
    HORING_TRY(copyGrads(*bucket, grads, bucket->grads.data()));
  } else {
    for (size_t i = 0; i < grads.size(); ++i) {
      const horingParoPlace_t& place = list_.places[params[i]];
      if (grads[i])
        HORING_TRY(backend_->accumulate(bucket->grads.data() + place.offset * bytesOf(type), grads[i], type,
                                        place.count, 1));
    }
  }
  bucket->has_grads = true;
  ++bucket->reductions;
  return {};
}

Status Client::checkGrads(int bucket, const std::vector<size_t>& params,
                          std::span<const void* const> grads) const {
  if (grads.size() != params.size())
    return makeStatus(Code::kInvalidArgument,
                      "numGrads is %zu, and bucket %d has %zu parameters: expected as many", grads.size(),
                      bucket, params.size());
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i] && list_.places[params[i]].count > 0)
      HORING_TRY(backend_->checkReadable(grads[i], "a gradient", labelOf(description_.names, params[i])));
  return {};
}

Status Client::copyGrads(const Bucket& bucket, std::span<const void* const> grads, std::byte* to) const {
  const size_t element_bytes = bytesOf(bucket.layout.grad_type);
  for (size_t i = 0; i < grads.size(); ++i) {
    const horingParoPlace_t& place = list_.places[bucket.layout.params[i]];
    if (place.count == 0) continue;
    std::byte* const at = to + place.offset * element_bytes;
    HORING_TRY(grads[i] ? backend_->copy(at, grads[i], place.count * element_bytes)
                        : backend_->clear(at, place.count * element_bytes));
  }
  const size_t padding = bucket.layout.padded.count - bucket.layout.count;
  return backend_->clear(to + bucket.layout.count * element_bytes, padding * element_bytes);
}

Status Client::discardGrads(int number) {
  HORING_TRY(findTrainable(number).status());
  HORING_ASSIGN(GradBuffer* const buffer, openBufferOf(number));
  buffer->use = GradBuffer::Use::kFree;
  return {};
}

// Adds the oldest reduced gradients to the bucket's gradients.
Status Client::collectOldest() {
  GradBuffer& buffer = *reducing_.front();
  HORING_TRY(await(buffer.reduced));
  reducing_.pop_front();
  Bucket& bucket = buckets_[static_cast<size_t>(buffer.bucket)];
  const Range block = blockOf(bucket, row_->grads);
  const horingDataType_t type = bucket.layout.grad_type;
  const size_t element_bytes = bytesOf(type);
  const std::byte* const reduced = buffer.memory.data() + block.first * element_bytes;
  HORING_TRY(bucket.has_grads ? backend_->accumulate(bucket.grads.data(), reduced, type, block.count, 1)
                              : backend_->copy(bucket.grads.data(), reduced, block.count * element_bytes));
  bucket.has_grads = true;
  buffer.use = GradBuffer::Use::kFree;
  buffer.reduced = {};
  return {};
}

Status Client::collectAll() {
  while (!reducing_.empty()) HORING_TRY(collectOldest());
  return {};
}

Status Client::startFold(const Move& move, Bucket& bucket, std::byte* block) {
  if (folds_.size() == static_cast<size_t>(std::ranges::count_if(
                           grad_buffers_, [](const GradBuffer& each) { return each.memory.bytes() > 0; })))
    HORING_TRY(endOldestFold());
  GradBuffer* const scratch = &*std::ranges::find(grad_buffers_, GradBuffer::Use::kFree, &GradBuffer::use);
  HORING_TRY(failWith(grad_transfers_.scatter(
      move, {block, nullptr, bucket.layout.padded, bucket.layout.grad_type}, scratch->memory.data())));
  HORING_TRY(mark(grad_transfers_, scratch->reduced));
  scratch->use = GradBuffer::Use::kReducing;
  folds_.push_back({move, &bucket, block, scratch});
  return {};
}

Status Client::endOldestFold() {
  const auto [move, bucket, block, scratch] = folds_.front();
  HORING_TRY(await(scratch->reduced));
  HORING_TRY(
      failWith(grad_transfers_.fold(move, {block, nullptr, bucket->layout.padded, bucket->layout.grad_type},
                                    scratch->memory.data(), description_.config.average)));
  HORING_TRY(mark(grad_transfers_, bucket->grads_ready));
  scratch->use = GradBuffer::Use::kFree;
  scratch->reduced = {};
  folds_.pop_front();
  return {};
}

Status Client::syncGrads() {
  HORING_TRY(mayCall());
  if (phase_ != Phase::kMicroSteps)
    return makeStatus(Code::kInvalidUsage,
                      "gradients are synchronized already: expected horingParoSyncParams");
  for (const GradBuffer& buffer : grad_buffers_)
    if (buffer.use == GradBuffer::Use::kOpen)
      return outOfOrder("has open gradients", buffer.bucket,
                        "horingParoReduceGrads before horingParoSyncGrads");
  std::optional<int> reductions;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (!buckets_[i].layout.trainable) continue;
    if (!reductions) reductions = buckets_[i].reductions;
    if (buckets_[i].reductions == 0 || buckets_[i].reductions != *reductions)
      return makeStatus(
          Code::kInvalidUsage,
          "bucket %zu was reduced %d times since the last step, and the first one %d times: expected "
          "horingParoReduceGrads of each trainable bucket, once in every micro-step",
          i, buckets_[i].reductions, *reductions);
  }
  HORING_TRY(collectAll());
  for (Bucket& bucket : buckets_) {
    if (!bucket.layout.trainable || bucket.layout.padded.count == 0) continue;
    HORING_TRY(issueSync(horingParoPhaseSyncGrads, grad_transfers_, bucket, bucket.grads));
    HORING_TRY(mark(grad_transfers_, bucket.grads_ready));
  }
  while (!folds_.empty()) HORING_TRY(endOldestFold());
  phase_ = Phase::kUpdate;
  return {};
}

Result<Client::Norm> Client::gradNorm() {
  HORING_TRY(mayCall());
  if (phase_ != Phase::kUpdate)
    return makeStatus(Code::kInvalidUsage, "gradients are not synchronized: expected horingParoSyncGrads");
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (!buckets_[i].layout.trainable) continue;
    HORING_ASSIGN(const horingParoShard_t part, shard(static_cast<int>(i)));
    HORING_TRY(backend_->addSquares(part.grads, part.gradType, part.count));
  }
  Result<Squares> squares = backend_->takeSquares();
  HORING_TRY(failWith(squares.status()));
  const Squares mine = squares.take();
  double sums[2] = {mine.sum,
                    mine.finite ? 0.0 : 1.0};  // the second: of how many ranks some are infinite or NaN
  if (row_->state != horingParoWhole) {
    const horingParoScope_t sharers = row_->state == horingParoByGroup ? horingParoGroup : horingParoGlobal;
    HORING_TRY(failWith(statusOf(
        horingAllReduce(sums, sums, 2, horingFloat64, horingSum, grid_.communicator(sharers), nullptr))));
    // Groups of different sizes add up in different orders, and all ranks must get the same.
    if (!grid_.blocks().even() && sharers == horingParoGroup)
      HORING_TRY(failWith(statusOf(horingBcast(sums, 2, horingFloat64, 0, comm_, nullptr))));
  }
  return Norm{std::sqrt(sums[0]), sums[1] > 0};
}

// ---- The optimizer ----

Result<horingParoShard_t> Client::shard(int number) {
  HORING_ASSIGN(Bucket* const bucket, findTrainable(number));
  if (phase_ != Phase::kUpdate)
    return outOfOrder("has no synchronized gradients", number, "horingParoSyncGrads");
  HORING_TRY(await(bucket->grads_ready));
  HORING_ASSIGN(horingParoShard_t shard, master(number));
  shard.grads = shardIn(*bucket, bucket->grads, row_->grads, shard.gradType);
  return shard;
}

Result<horingParoShard_t> Client::master(int number) {
  HORING_ASSIGN(Bucket* const bucket, findTrainable(number));
  HORING_TRY(await(bucket->params_ready));  // if the master is the stored parameter
  const Range block = blockOf(*bucket, row_->state);
  horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
  shard.first = std::min(block.first, bucket->layout.count);
  shard.count = std::min(block.end(), bucket->layout.count) - shard.first;
  shard.gradType = bucket->layout.grad_type;
  shard.stateType = bucket->layout.stateType();
  shard.master = bucket->master ? bucket->master.data()
                                : shardIn(*bucket, bucket->params, row_->params, bucket->layout.type);
  for (size_t i = 0; i < bucket->state.size(); ++i) shard.state[i] = bucket->state[i].data();
  return shard;
}

Status Client::publish(Bucket& bucket) {
  const Range block = blockOf(bucket, row_->state);
  if (bucket.master)
    HORING_TRY(backend_->convert(bucket.master.data(), bucket.layout.stateType(),
                                 shardIn(bucket, bucket.params, row_->params, bucket.layout.type),
                                 bucket.layout.type, block.count));
  if (bucket.layout.padded.count == 0) return {};
  HORING_TRY(issueSync(horingParoPhaseSyncParams, param_transfers_, bucket, bucket.params));
  HORING_TRY(mark(param_transfers_, bucket.params_ready));
  return {};
}

Status Client::syncParams() {
  HORING_TRY(mayCall());
  if (phase_ != Phase::kUpdate)
    return makeStatus(Code::kInvalidUsage, "there is nothing to synchronize: expected horingParoSyncGrads");
  for (size_t i = 0; i < buckets_.size(); ++i)
    if (buckets_[i].is_gathered)
      return outOfOrder("is gathered", static_cast<int>(i),
                        "horingParoReleaseParams before horingParoSyncParams");
  for (Bucket& bucket : buckets_) {
    if (!bucket.layout.trainable) continue;
    HORING_TRY(await(bucket.grads_ready));
    HORING_TRY(await(bucket.params_ready));
    HORING_TRY(publish(bucket));
    bucket.reductions = 0;
    bucket.has_grads = false;
  }
  phase_ = Phase::kMicroSteps;
  return {};
}

}  // namespace horing::paro
