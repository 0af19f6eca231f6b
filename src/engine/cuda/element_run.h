#pragma once
// One thread's part of an ElementCall: every `threads`-th element. Gives the same bits as paro/convert.h on the host, except for sums of
// squares, whose order is another one, though always the same for one number of threads.
#include "engine/cuda/element_call.h"
#include "engine/cuda/fold_codecs.h"
#include "engine/cuda/round_to_odd.h"

namespace horing::cuda {

// A number as an element, rounded once.
template <class Codec, class Value>
HORING_DEVICE inline typename Codec::Stored storedAs(Value value) {
  if constexpr (sizeof(typename Codec::Stored) == 2 && sizeof(Value) == 8)
    return Codec::write(roundToOdd(value));
  else
    return Codec::write(static_cast<typename Codec::Value>(value));
}

// One thread.
class ElementRun {
 public:
  HORING_DEVICE ElementRun(const ElementCall& call, uint64_t thread, uint64_t threads)
      : call_(call), thread_(thread), threads_(threads) {}

  HORING_DEVICE void run() const {
    switch (call_.work) {
      case ElementWork::kConvert:
        return convert();
      default:
        switch (call_.from_type) {
          case DataType::kFloat16:
            return runOn<Float16>();
          case DataType::kBfloat16:
            return runOn<Bfloat16Codec>();
          case DataType::kFloat64:
            return runOn<Float64>();
          default:
            return runOn<Float32>();
        }
    }
  }

 private:
  using Float16 = SmallFloatCodec<kFloat16Format, uint16_t>;
  using Float32 = FloatCodec<float, uint32_t>;
  using Float64 = FloatCodec<double, uint64_t>;

  template <class Codec>
  HORING_DEVICE void runOn() const {
    if (call_.work == ElementWork::kAccumulate) return accumulate<Codec>();
    if (call_.work == ElementWork::kScale) return scale<Codec>();
    addSquares<Codec>();
  }

  template <class Codec>
  HORING_DEVICE const typename Codec::Stored* from() const {
    return static_cast<const typename Codec::Stored*>(call_.from);
  }
  template <class Codec>
  HORING_DEVICE typename Codec::Stored* to() const {
    return static_cast<typename Codec::Stored*>(call_.to);
  }

  HORING_DEVICE void convert() const {
    switch (call_.from_type) {
      case DataType::kFloat16:
        return convertFrom<Float16>();
      case DataType::kBfloat16:
        return convertFrom<Bfloat16Codec>();
      case DataType::kFloat64:
        return convertFrom<Float64>();
      default:
        return convertFrom<Float32>();
    }
  }
  template <class From>
  HORING_DEVICE void convertFrom() const {
    switch (call_.to_type) {
      case DataType::kFloat16:
        return convertBetween<From, Float16>();
      case DataType::kBfloat16:
        return convertBetween<From, Bfloat16Codec>();
      case DataType::kFloat64:
        return convertBetween<From, Float64>();
      default:
        return convertBetween<From, Float32>();
    }
  }
  template <class From, class To>
  HORING_DEVICE void convertBetween() const {
    for (uint64_t i = thread_; i < call_.count; i += threads_)
      to<To>()[i] = storedAs<To>(From::read(from<From>()[i]));
  }

  template <class Codec>
  HORING_DEVICE void accumulate() const {
    const auto factor = static_cast<typename Codec::Value>(call_.factor);
    for (uint64_t i = thread_; i < call_.count; i += threads_)
      to<Codec>()[i] = Codec::write(Codec::read(to<Codec>()[i]) + factor * Codec::read(from<Codec>()[i]));
  }
  template <class Codec>
  HORING_DEVICE void scale() const {
    const auto factor = static_cast<typename Codec::Value>(call_.factor);
    for (uint64_t i = thread_; i < call_.count; i += threads_)
      to<Codec>()[i] = Codec::write(factor * Codec::read(to<Codec>()[i]));
  }

  template <class Codec>
  HORING_DEVICE void addSquares() const {
    SquareSum& mine = static_cast<SquareSum*>(call_.to)[thread_];
    SquareSum sum = mine;
    for (uint64_t i = thread_; i < call_.count; i += threads_) {
      const double value = Codec::read(from<Codec>()[i]);
      sum.sum += value * value;
      sum.not_finite += value - value == 0 ? 0 : 1;
    }
    mine = sum;
  }

  const ElementCall& call_;
  const uint64_t thread_, threads_;
};

}  // namespace horing::cuda
