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
    withCodec(call_.from_type, [this](auto from) {
      using From = decltype(from);
      switch (call_.work) {
        case ElementWork::kConvert:
          return withCodec(call_.to_type, [this](auto to) { this->template convert<From, decltype(to)>(); });
        case ElementWork::kAccumulate:
          return accumulate<From>();
        case ElementWork::kScale:
          return scale<From>();
        case ElementWork::kAddSquares:
          return addSquares<From>();
      }
    });
  }

 private:
  using Float16 = SmallFloatCodec<kFloat16Format, uint16_t>;
  using Float32 = FloatCodec<float, uint32_t>;
  using Float64 = FloatCodec<double, uint64_t>;

  // Calls body() with the codec of a type.
  template <class Body>
  HORING_DEVICE static void withCodec(DataType type, Body body) {
    switch (type) {
      case DataType::kFloat16:
        return body(Float16());
      case DataType::kBfloat16:
        return body(Bfloat16Codec());
      case DataType::kFloat64:
        return body(Float64());
      default:
        return body(Float32());
    }
  }

  template <class Codec>
  HORING_DEVICE const typename Codec::Stored* from() const {
    return static_cast<const typename Codec::Stored*>(call_.from);
  }
  template <class Codec>
  HORING_DEVICE typename Codec::Stored* to() const {
    return static_cast<typename Codec::Stored*>(call_.to);
  }

  template <class From, class To>
  HORING_DEVICE void convert() const {
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
