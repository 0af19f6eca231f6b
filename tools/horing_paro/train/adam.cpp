#include "horing_paro/train/adam.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace horing::paro {

namespace {

constexpr size_t kPiece = 1024;  // gradients that are converted at a time

// A shard's vectors, from some element on.
template <typename Real>
struct Piece {
  const Real* gradient;
  Real* master;
  Real* momentum;
  Real* variance;
  size_t count;
};

template <typename Real>
void updatePiece(const Adam& adam, int step, const Piece<Real>& piece) {
  const auto beta1 = static_cast<Real>(adam.beta1), beta2 = static_cast<Real>(adam.beta2);
  const auto rate = static_cast<Real>(adam.learning_rate / (1 - std::pow(adam.beta1, step)));
  const auto correction = static_cast<Real>(1 / (1 - std::pow(adam.beta2, step)));
  const auto epsilon = static_cast<Real>(adam.epsilon);
  for (size_t i = 0; i < piece.count; ++i) {
    const Real g = piece.gradient[i];
    piece.momentum[i] = beta1 * piece.momentum[i] + (1 - beta1) * g;
    piece.variance[i] = beta2 * piece.variance[i] + (1 - beta2) * g * g;
    piece.master[i] -= rate * piece.momentum[i] / (std::sqrt(piece.variance[i] * correction) + epsilon);
  }
}

size_t bytesOf(horingDataType_t type) {
  return type == horingFloat64 ? 8 : type == horingFloat32 ? 4 : 2;
}

template <typename Real>
void update(const Adam& adam, int step, const horingParoShard_t& shard) {
  Real gradient[kPiece];
  for (size_t first = 0; first < shard.count; first += kPiece) {
    const size_t count = std::min(kPiece, shard.count - first);
    const char* from = static_cast<const char*>(shard.grads) + first * bytesOf(shard.gradType);
    HORING_CHECK(horingParoConvert(from, shard.gradType, gradient, shard.stateType, count) == horingSuccess);
    updatePiece<Real>(
        adam, step,
        {gradient, static_cast<Real*>(shard.master) + first, static_cast<Real*>(shard.state[0]) + first,
         static_cast<Real*>(shard.state[1]) + first, count});
  }
}

}  // namespace

void updateWithAdam(const Adam& adam, int step, const horingParoShard_t& shard) {
  shard.stateType == horingFloat64 ? update<double>(adam, step, shard) : update<float>(adam, step, shard);
}

}  // namespace horing::paro
