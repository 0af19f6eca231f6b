// horing::Paro for C++20: sharded data-parallel training that cleans up after itself, with spans instead of
// pointers and counts. Everything is inline over paro.h, whose conventions hold here too.
//
//   const std::vector<horingParoParam_t> tensors = {{vocabulary * width, horingBfloat16, 1},
//                                                   {width, horingFloat32, 1}};
//   horing::Paro model(comm, tensors, horing::Paro::strategy("IIG"));
//   {
//     const horing::Paro::Gathered parameters = model.gather(0);   // released at the end of the scope
//     use(parameters.param<float>(1));
//   }
//   { horing::Paro::Grads grads = model.openGrads(0); fill(grads.grad<float>(1)); grads.reduce(); }
//   model.syncGrads();
//   model.forEachShard([](const horingParoShard_t& shard) { update(shard); });
//   model.syncParams();
//
// Errors are exceptions of type horing::Error, as in horing.hpp.
#ifndef HORING_PARO_HPP_
#define HORING_PARO_HPP_

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "horing/horing.hpp"
#include "horing/paro.h"

namespace horing {
inline namespace v0 {

// Throws Error unless the call of paro.h, made by this thread just now, succeeded.
inline void checkParo(horingResult_t result) {
  if (result != horingSuccess)
    throw Error(result, std::string(horingGetErrorString(result)) + ": " + horingParoGetLastError());
}

// One rank's part of a sharded model. Movable, not copyable; not to be moved while a bucket is gathered or
// open.
class Paro {
 public:
  // The default settings with a strategy given by name ("IIG", "ZeRO-3", "auto").
  static horingParoConfig_t strategy(const std::string& name) {
    horingParoConfig_t config = HORING_PARO_CONFIG_INITIALIZER;
    checkParo(horingParoFindStrategy(name.c_str(), &config.strategy));
    return config;
  }
  // The row of the table of strategies.
  static const horingParoStrategyInfo_t& strategyInfo(horingParoStrategy_t strategy) {
    const horingParoStrategyInfo_t* info = nullptr;
    checkParo(horingParoGetStrategy(strategy, &info));
    return *info;
  }
  static horingParoEstimate_t estimate(horingParoStrategy_t strategy, const horingParoModel_t& model) {
    horingParoEstimate_t estimate = HORING_PARO_ESTIMATE_INITIALIZER;
    checkParo(horingParoGetEstimate(strategy, &model, &estimate));
    return estimate;
  }

  // Collective.
  static horingParoRates_t measure(const Communicator& comm, std::size_t bytes) {
    horingParoRates_t rates;
    checkParo(horingParoMeasure(comm.handle(), bytes, &rates));
    return rates;
  }
  static double seconds(const horingParoEstimate_t& estimate, int vectors, const horingParoRates_t& rates) {
    double seconds = 0;
    checkParo(horingParoGetSeconds(&estimate, vectors, &rates, &seconds));
    return seconds;
  }

  // Collective; comm must outlive it.
  Paro(const Communicator& comm, std::span<const horingParoParam_t> params,
       const horingParoConfig_t& config = HORING_PARO_CONFIG_INITIALIZER)
      : numParams_(params.size()) {
    checkParo(horingParoCreate(&paro_, comm.handle(), &config, params.data(), params.size()));
  }
  Paro(Paro&& other) noexcept
      : paro_(std::exchange(other.paro_, nullptr)), numParams_(other.numParams_) {}
  Paro& operator=(Paro&& other) noexcept {
    std::swap(paro_, other.paro_);
    std::swap(numParams_, other.numParams_);
    return *this;
  }
  ~Paro() {
    if (paro_) (void)horingParoDestroy(paro_);
  }

  // For functions of paro.h; this object keeps ownership.
  horingParo_t handle() const noexcept { return paro_; }

  horingParoInfo_t info() const {
    horingParoInfo_t info = HORING_PARO_INFO_INITIALIZER;
    checkParo(horingParoGetInfo(paro_, &info));
    return info;
  }
  horingParoUsage_t usage() const {
    horingParoUsage_t usage = HORING_PARO_USAGE_INITIALIZER;
    checkParo(horingParoGetUsage(paro_, &usage));
    return usage;
  }
  horingParoPlace_t place(std::size_t param) const {
    horingParoPlace_t place;
    checkParo(horingParoGetPlace(paro_, param, &place));
    return place;
  }
  horingParoBucket_t bucket(int number) const {
    horingParoBucket_t bucket;
    checkParo(horingParoGetBucket(paro_, number, &bucket));
    return bucket;
  }

  // Sets all elements of a parameter, in its own type or in float.
  template <Buffer Values>
  void setParam(std::size_t param, const Values& values) {
    checkParo(horingParoSetParam(paro_, param, std::ranges::data(values), std::ranges::size(values),
                                 kElementType<Values>));
  }

  // Keeps a bucket gathered, or being gathered, while it lives.
  class Gathered {
   public:
    Gathered(Gathered&& other) noexcept
        : model_(std::exchange(other.model_, nullptr)), bucket_(other.bucket_), type_(other.type_) {}
    Gathered& operator=(Gathered&& other) noexcept {
      std::swap(model_, other.model_);
      std::swap(bucket_, other.bucket_);
      std::swap(type_, other.type_);
      return *this;
    }
    ~Gathered() {
      if (model_) (void)horingParoReleaseParams(model_, bucket_);
    }
    // Waits for the bucket. T is the bucket's wire type, or its masters'.
    template <Element T>
    std::span<const T> param(std::size_t param) const {
      const void* values = nullptr;
      checkParo(horingParoGetParam(model_, param, &values));
      return {static_cast<const T*>(values), typedCount<T>(model_, param, type_)};
    }

   private:
    friend class Paro;
    using Type = horingDataType_t horingParoBucket_t::*;
    Gathered(horingParo_t model, int bucket, Type type) : model_(model), bucket_(bucket), type_(type) {}
    horingParo_t model_;
    int bucket_;
    Type type_;
  };
  // Starts to gather a bucket: an early call is a prefetch.
  [[nodiscard]] Gathered gather(int bucket) {
    checkParo(horingParoGatherParams(paro_, bucket));
    return Gathered(paro_, bucket, &horingParoBucket_t::type);
  }
  // From the masters, and in their type.
  [[nodiscard]] Gathered gatherMasters(int bucket) {
    checkParo(horingParoGatherMasters(paro_, bucket));
    return Gathered(paro_, bucket, &horingParoBucket_t::masterType);
  }

  // The gradients of a bucket in one micro-step, to be filled and then reduced; discarded at the end of the
  // scope if they were not reduced.
  class Grads {
   public:
    Grads(Grads&& other) noexcept : model_(std::exchange(other.model_, nullptr)), bucket_(other.bucket_) {}
    Grads& operator=(Grads&& other) noexcept {
      std::swap(model_, other.model_);
      std::swap(bucket_, other.bucket_);
      return *this;
    }
    ~Grads() {
      if (model_) (void)horingParoDiscardGrads(model_, bucket_);
    }
    template <Element T>
    std::span<T> grad(std::size_t param) const {
      void* values = nullptr;
      checkParo(horingParoGetGrad(model_, param, &values));
      return {static_cast<T*>(values), typedCount<T>(model_, param, &horingParoBucket_t::gradType)};
    }
    // Call it once; afterwards this object is empty.
    void reduce() { checkParo(horingParoReduceGrads(std::exchange(model_, nullptr), bucket_)); }

   private:
    friend class Paro;
    Grads(horingParo_t model, int bucket) : model_(model), bucket_(bucket) {}
    horingParo_t model_;
    int bucket_;
  };
  // Those of the bucket's parameters, in their order; nullptr: zeros.
  void reduceGradsOf(int bucket, std::span<const void* const> grads) {
    checkParo(horingParoReduceGradsOf(paro_, bucket, grads.data(), grads.size()));
  }
  [[nodiscard]] Grads openGrads(int bucket) {
    checkParo(horingParoOpenGrads(paro_, bucket));
    return Grads(paro_, bucket);
  }

  void syncGrads() { checkParo(horingParoSyncGrads(paro_)); }
  // What gradNorm() returns: see horingParoGetGradNorm.
  struct GradNorm {
    double norm;
    bool overflow;
  };
  GradNorm gradNorm() {
    double norm = 0;
    int overflow = 0;
    checkParo(horingParoGetGradNorm(paro_, &norm, &overflow));
    return {norm, overflow != 0};
  }
  horingParoShard_t shard(int bucket) {
    horingParoShard_t shard = HORING_PARO_SHARD_INITIALIZER;
    checkParo(horingParoGetShard(paro_, bucket, &shard));
    return shard;
  }
  // Calls `update` with the shard of each trainable bucket in turn, while the gradients of the next are still
  // in flight.
  template <std::invocable<const horingParoShard_t&> Update>
  void forEachShard(Update update) {
    const int buckets = info().numBuckets;
    for (int number = 0; number < buckets; ++number)
      if (bucket(number).trainable) update(shard(number));
  }
  void syncParams() { checkParo(horingParoSyncParams(paro_)); }

  void checkFolder(const std::filesystem::path& folder) {
    checkParo(horingParoCheckFolder(paro_, folder.c_str()));
  }
  void save(const std::filesystem::path& folder, std::uint64_t step) {
    checkParo(horingParoSave(paro_, folder.c_str(), step));
  }
  // Saves on a thread while training goes on; waitSave() throws what went wrong.
  void startSave(const std::filesystem::path& folder, std::uint64_t step) {
    checkParo(horingParoStartSave(paro_, folder.c_str(), step));
  }
  void waitSave() { checkParo(horingParoWaitSave(paro_)); }
  // Returns the step that was saved.
  std::uint64_t load(const std::filesystem::path& folder) {
    std::uint64_t step = 0;
    checkParo(horingParoLoad(paro_, folder.c_str(), &step));
    return step;
  }
  // What loadByName() returns: the step, and for each parameter 1 if it was loaded, else 0.
  struct Loaded {
    std::uint64_t step;
    std::vector<int> params;
  };
  Loaded loadByName(const std::filesystem::path& folder, bool strict) {
    Loaded loaded{0, std::vector<int>(numParams_)};
    checkParo(horingParoLoadByName(paro_, folder.c_str(), strict, loaded.params.data(), &loaded.step));
    return loaded;
  }

 private:
  // The number of elements of a parameter, whose `type` must be T's.
  template <Element T>
  static std::size_t typedCount(horingParo_t model, std::size_t param,
                                horingDataType_t horingParoBucket_t::*type) {
    horingParoPlace_t place;
    horingParoBucket_t bucket;
    checkParo(horingParoGetPlace(model, param, &place));
    checkParo(horingParoGetBucket(model, place.bucket, &bucket));
    if (bucket.*type != ElementType<std::remove_cv_t<T>>::value)
      throw Error(horingInvalidArgument,
                  "parameter " + std::to_string(param) + " has elements of another type");
    return place.count;
  }

  horingParo_t paro_ = nullptr;
  std::size_t numParams_ = 0;
};

}  // namespace v0
}  // namespace horing

#endif  // HORING_PARO_HPP_
