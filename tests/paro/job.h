#pragma once
// A model that is trained on ranks that are threads, and the same on one rank in float64 to compare with.
//
// Gradients are small integers and the learning rate is a power of two, so every sum is exact, whatever its order:
// results are equal to the bit or wrong.
#include <cmath>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "../capi/ranks.h"
#include "horing/paro.h"

#define ASSERT_PARO(call) ASSERT_EQ(call, horingSuccess) << horingParoGetLastError()
#define EXPECT_PARO(call) EXPECT_EQ(call, horingSuccess) << horingParoGetLastError()

inline testing::AssertionResult paroRefuses(horingResult_t result, horingResult_t expected,
                                            const char* named) {
  const std::string text = horingParoGetLastError();
  if (result != expected) return testing::AssertionFailure() << "result " << result << ": " << text;
  if (text.find(named) == std::string::npos)
    return testing::AssertionFailure() << "'" << named << "' is not in: " << text;
  return testing::AssertionSuccess();
}

// Ranks of each group.
using Sizes = std::vector<int>;
inline std::vector<horingComm_t> makeGroupsOf(const Sizes& sizes) {
  static const char* const kNames[] = {"a", "b", "c", "d"};
  std::vector<const char*> labels;
  for (size_t group = 0; group < sizes.size(); ++group)
    labels.insert(labels.end(), static_cast<size_t>(sizes[group]), kNames[group]);
  return makeGroups(labels);
}
inline std::vector<horingComm_t> makeGrid(int groups, int members) {
  return makeGroupsOf(Sizes(static_cast<size_t>(groups), members));
}

inline void destroyAll(const std::vector<horingComm_t>& comms) {
  for (const horingComm_t comm : comms) EXPECT_HORING(horingCommDestroy(comm));
}

// Sizes that divide nothing evenly, an empty one, and one longer than a bucket; types and frozen ones mixed.
inline const std::vector<horingParoParam_t> kModel = {
    {1003, horingFloat32, 1}, {7, horingBfloat16, 1},  {33, horingFloat32, 1},  {0, horingFloat32, 1},
    {257, horingFloat64, 1},  {19, horingFloat16, 1},  {129, horingFloat32, 0}, {1, horingFloat16, 1},
    {77, horingBfloat16, 0},  {501, horingBfloat16, 1}};
inline constexpr size_t kBucketBytes = 2000;

inline size_t bytesOf(horingDataType_t type) {
  return type == horingFloat64 ? 8 : type == horingFloat32 ? 4 : 2;
}

// Elements that a client allocates for a bucket of `count` of a wire type.
inline size_t padded(size_t count, horingDataType_t type, int ranks) {
  const size_t step = 16 / bytesOf(type) * static_cast<size_t>(ranks);
  return (count + step - 1) / step * step;
}

inline double asDouble(const void* values, horingDataType_t type, size_t i) {
  double value = 0;
  const auto* const at = static_cast<const char*>(values) + i * bytesOf(type);
  EXPECT_PARO(horingParoConvert(at, type, &value, horingFloat64, 1));
  return value;
}

inline void put(void* values, horingDataType_t type, size_t i, double value) {
  EXPECT_PARO(
      horingParoConvert(&value, horingFloat64, static_cast<char*>(values) + i * bytesOf(type), type, 1));
}

inline double rounded(double value, horingDataType_t type) {
  char memory[8] = {};
  put(memory, type, 0, value);
  return asDouble(memory, type, 0);
}

// -2 .. 2
inline double gradient(int rank, int micro_step, int step, size_t param, size_t i) {
  return static_cast<double>((static_cast<size_t>(rank) * 3 + static_cast<size_t>(micro_step) * 5 +
                              static_cast<size_t>(step) * 7 + param + i * 11) %
                             5) -
         2;
}
inline double initial(size_t param, size_t i) {
  return static_cast<double>((param * 31 + i * 17) % 64) / 32 - 1;
}

// How a shard is updated. State values are used as Adam does.
enum class Optimizer { kSgd, kAdam };

template <typename T>
void update(Optimizer optimizer, T& master, T grad, T& first, T& second) {
  if (optimizer == Optimizer::kSgd) {
    master -= grad / 64;
    return;
  }
  first = T(0.9) * first + T(0.1) * grad;
  second = T(0.99) * second + T(0.01) * grad * grad;
  master -= T(0.01) * first / (std::sqrt(second) + T(1e-3));
}

// What one rank would have: in the state's type, so that Adam's roundings are the same, too. SGD is exact in float64.
class Reference {
 public:
  Reference(const std::vector<horingParoParam_t>& params, Optimizer optimizer)
      : params_(params), optimizer_(optimizer) {
    for (size_t p = 0; p < params.size(); ++p) {
      values_.emplace_back(params[p].count);
      first_.emplace_back(params[p].count);
      second_.emplace_back(params[p].count);
      for (size_t i = 0; i < params[p].count; ++i) values_[p][i] = initial(p, i);
    }
  }

  // scale: 1, or 1/ranks for averages.
  void step(int ranks, int micro_steps, int step, double scale) {
    for (size_t p = 0; p < params_.size(); ++p)
      for (size_t i = 0; params_[p].trainable && i < params_[p].count; ++i) {
        double sum = 0;
        for (int rank = 0; rank < ranks; ++rank)
          for (int micro = 0; micro < micro_steps; ++micro) sum += gradient(rank, micro, step, p, i);
        apply(p, i, sum * scale);
      }
  }

  double value(size_t param, size_t i) const { return values_[param][i]; }

 private:
  void apply(size_t p, size_t i, double grad) {
    if (optimizer_ == Optimizer::kSgd || params_[p].type == horingFloat64) {
      update(optimizer_, values_[p][i], grad, first_[p][i], second_[p][i]);
      return;
    }
    float master = static_cast<float>(values_[p][i]), first = static_cast<float>(first_[p][i]),
          second = static_cast<float>(second_[p][i]);
    update(optimizer_, master, static_cast<float>(grad), first, second);
    values_[p][i] = master;
    first_[p][i] = first;
    second_[p][i] = second;
  }

  const std::vector<horingParoParam_t>& params_;
  Optimizer optimizer_;
  std::vector<std::vector<double>> values_, first_, second_;
};

// How a trainee reads and writes what the client gives it: memory of the host.
class Access {
 public:
  virtual ~Access() = default;
  virtual void read(void* to, const void* from, size_t bytes) const {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  virtual void write(void* to, const void* from, size_t bytes) const { read(to, from, bytes); }
  // A copy of `values` that the client can read, until release().
  virtual const void* give(const std::vector<char>& values) const {
    return given_.emplace_back(values).data();
  }
  virtual void release() const { given_.clear(); }

 private:
  mutable std::list<std::vector<char>> given_;
};

// One rank of the job.
class Trainee {
 public:
  Trainee(horingParo_t paro, int rank, const std::vector<horingParoParam_t>& params,
          std::shared_ptr<const Access> access = std::make_shared<Access>())
      : paro_(paro), rank_(rank), params_(params), access_(std::move(access)) {
    horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
    EXPECT_PARO(horingParoGetInfo(paro, &info));
    buckets_ = info.numBuckets;
  }

  void initialise() {
    for (size_t p = 0; p < params_.size(); ++p) {
      std::vector<double> memory(params_[p].count + 1);
      for (size_t i = 0; i < params_[p].count; ++i) put(memory.data(), params_[p].type, i, initial(p, i));
      ASSERT_PARO(horingParoSetParam(paro_, p, memory.data(), params_[p].count, params_[p].type));
    }
  }

  // Every gathered parameter is what the reference has, rounded to the wire type, give or take `tolerance`. Prefetches the next bucket.
  void expectParams(const Reference& reference, double tolerance = 0) {
    if (buckets_ > 0) {
      ASSERT_PARO(horingParoGatherParams(paro_, 0));
    }
    for (int bucket = 0; bucket < buckets_; ++bucket) {
      if (bucket + 1 < buckets_) {
        ASSERT_PARO(horingParoGatherParams(paro_, bucket + 1));
      }
      expectGathered(bucket, &horingParoBucket_t::type, reference, tolerance);
      ASSERT_PARO(horingParoReleaseParams(paro_, bucket));
    }
  }

  // Every master is what the reference has.
  void expectMasters(const Reference& reference) {
    for (int bucket = 0; bucket < buckets_; ++bucket) {
      ASSERT_PARO(horingParoGatherMasters(paro_, bucket));
      expectGathered(bucket, &horingParoBucket_t::masterType, reference, 0);
      ASSERT_PARO(horingParoReleaseParams(paro_, bucket));
    }
  }

  // Last bucket first, as backward propagation does. In both ways: from memory of this object, and written to that of the client.
  void giveGrads(int micro_step, int step) {
    for (int bucket = buckets_; bucket-- > 0;) {
      if (!isTrainable(bucket)) continue;
      if ((bucket + micro_step + step) % 2 == 1) {
        ASSERT_NO_FATAL_FAILURE(reduceOwnGrads(bucket, micro_step, step));
        continue;
      }
      ASSERT_PARO(horingParoOpenGrads(paro_, bucket));
      horingParoBucket_t info{};
      ASSERT_PARO(horingParoGetBucket(paro_, bucket, &info));
      forEachParamOf(bucket, [&](size_t p) {
        void* values = nullptr;
        ASSERT_PARO(horingParoGetGrad(paro_, p, &values));
        const std::vector<char> grads = gradsOf(p, info.gradType, micro_step, step);
        access_->write(values, grads.data(), grads.size());
      });
      ASSERT_PARO(horingParoReduceGrads(paro_, bucket));
    }
  }

  void updateShards(Optimizer optimizer) {
    for (int bucket = 0; bucket < buckets_; ++bucket) {
      if (!isTrainable(bucket)) continue;
      horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
      ASSERT_PARO(horingParoGetShard(paro_, bucket, &shard));
      expectAligned(bucket, shard);
      if (shard.stateType == horingFloat64)
        updateShard<double>(optimizer, shard);
      else
        updateShard<float>(optimizer, shard);
    }
  }

  void step(Optimizer optimizer, int micro_steps, int step) {
    for (int micro = 0; micro < micro_steps; ++micro) ASSERT_NO_FATAL_FAILURE(giveGrads(micro, step));
    ASSERT_PARO(horingParoSyncGrads(paro_));
    ASSERT_NO_FATAL_FAILURE(updateShards(optimizer));
    ASSERT_PARO(horingParoSyncParams(paro_));
  }

  int rank() const { return rank_; }

  bool isTrainable(int bucket) const {
    horingParoBucket_t info{};
    EXPECT_PARO(horingParoGetBucket(paro_, bucket, &info));
    return info.trainable != 0;
  }

 private:
  // To 16 bytes in every type, also that in which the parameters are gathered.
  void expectAligned(int bucket, const horingParoShard_t& shard) const {
    horingParoBucket_t info{};
    EXPECT_PARO(horingParoGetBucket(paro_, bucket, &info));
    if (shard.count > 0) {
      EXPECT_EQ(shard.first * bytesOf(info.type) % 16, 0u);
    }
    const auto offset = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 16; };
    EXPECT_EQ(offset(shard.grads), 0u) << shard.first;
    EXPECT_EQ(offset(shard.master), 0u) << shard.first;
    for (const void* const values : shard.state) EXPECT_EQ(offset(values), 0u) << shard.first;
  }

  void reduceOwnGrads(int bucket, int micro_step, int step) {
    horingParoBucket_t info{};
    ASSERT_PARO(horingParoGetBucket(paro_, bucket, &info));
    std::vector<const void*> grads;
    forEachParamOf(bucket, [&](size_t p) {
      grads.push_back(access_->give(gradsOf(p, info.gradType, micro_step, step)));
    });
    ASSERT_PARO(horingParoReduceGradsOf(paro_, bucket, grads.data(), grads.size()));
    access_->release();
  }

  std::vector<char> gradsOf(size_t param, horingDataType_t type, int micro_step, int step) const {
    std::vector<char> grads(params_[param].count * bytesOf(type));
    for (size_t i = 0; i < params_[param].count; ++i)
      put(grads.data(), type, i, gradient(rank_, micro_step, step, param, i));
    return grads;
  }

  void expectGathered(int bucket, horingDataType_t horingParoBucket_t::*type, const Reference& reference,
                      double tolerance) {
    horingParoBucket_t info{};
    ASSERT_PARO(horingParoGetBucket(paro_, bucket, &info));
    forEachParamOf(bucket, [&](size_t p) {
      const void* values = nullptr;
      ASSERT_PARO(horingParoGetParam(paro_, p, &values));
      std::vector<char> mine(params_[p].count * bytesOf(info.*type));
      access_->read(mine.data(), values, mine.size());
      for (size_t i = 0; i < params_[p].count; ++i)
        ASSERT_NEAR(asDouble(mine.data(), info.*type, i), rounded(reference.value(p, i), info.*type),
                    tolerance)
            << "rank " << rank_ << ", parameter " << p << ", element " << i;
    });
  }

  template <typename Body>
  void forEachParamOf(int bucket, Body body) {
    for (size_t p = 0; p < params_.size(); ++p) {
      horingParoPlace_t place{};
      ASSERT_PARO(horingParoGetPlace(paro_, p, &place));
      if (place.bucket == bucket) body(p);
    }
  }

  template <typename T>
  void updateShard(Optimizer optimizer, const horingParoShard_t& shard) {
    std::vector<char> given(shard.count * bytesOf(shard.gradType));
    access_->read(given.data(), shard.grads, given.size());
    std::vector<T> grads(shard.count), master(shard.count), first(shard.count), second(shard.count);
    ASSERT_PARO(horingParoConvert(given.data(), shard.gradType, grads.data(), shard.stateType, shard.count));
    void* const kept[] = {shard.master, shard.state[0], shard.state[1]};
    std::vector<T>* const mine[] = {&master, &first, &second};
    for (size_t k = 0; k < std::size(kept); ++k)
      if (kept[k]) access_->read(mine[k]->data(), kept[k], shard.count * sizeof(T));
    for (size_t i = 0; i < shard.count; ++i) update(optimizer, master[i], grads[i], first[i], second[i]);
    for (size_t k = 0; k < std::size(kept); ++k)
      if (kept[k]) access_->write(kept[k], mine[k]->data(), shard.count * sizeof(T));
  }

  horingParo_t paro_;
  int rank_;
  const std::vector<horingParoParam_t>& params_;
  const std::shared_ptr<const Access> access_;
  int buckets_ = 0;
};

inline horingParoConfig_t configOf(horingParoStrategy_t strategy) {
  horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
  config.strategy = strategy;
  config.bucketBytes = kBucketBytes;
  config.average = 0;
  return config;
}

// A rank with a client of `params` on each communicator: body(paro, trainee).
template <typename Body>
void onClients(const std::vector<horingComm_t>& comms, const horingParoConfig_t& config,
               const std::vector<horingParoParam_t>& params, Body body) {
  onEveryRank(static_cast<int>(comms.size()), [&](int rank) {
    horingParo_t paro = nullptr;
    ASSERT_PARO(
        horingParoCreate(&paro, comms[static_cast<size_t>(rank)], &config, params.data(), params.size()));
    Trainee trainee(paro, rank, params);
    body(paro, trainee);
    EXPECT_PARO(horingParoDestroy(paro));
  });
}
