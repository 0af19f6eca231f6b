#include "horing_paro/train/network.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace horing::paro {

namespace {

// y += factor * x
template <typename Real>
void addScaled(Real factor, const Real* x, Real* y, int count) {
  for (int i = 0; i < count; ++i) y[i] += factor * x[i];
}

// Eight partial sums, so that the compiler may use vectors without reordering anything.
template <typename Real>
Real dot(const Real* x, const Real* y, int count) {
  Real parts[8] = {};
  int i = 0;
  for (; i + 8 <= count; i += 8)
    for (int lane = 0; lane < 8; ++lane) parts[lane] += x[i + lane] * y[i + lane];
  for (; i < count; ++i) parts[0] += x[i] * y[i];
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

// In -1 .. 1.
double signedUnit(uint64_t seed, int layer, size_t index) {
  const uint64_t bits = hash(seed, 0xa11ce + static_cast<uint64_t>(layer), index) >> 11;
  return std::ldexp(static_cast<double>(bits), -52) - 1;
}

}  // namespace

int NetworkShape::inputs(int layer) const {
  return layer == 1 ? context * embedding : hidden;
}

int NetworkShape::outputs(int layer) const {
  return layer == 0 ? context * embedding : layer + 1 == layers() ? kBytes : hidden;
}

size_t NetworkShape::parameters(int layer) const {
  if (layer == 0) return static_cast<size_t>(kBytes) * static_cast<size_t>(embedding);
  return static_cast<size_t>(inputs(layer) + 1) * static_cast<size_t>(outputs(layer));
}

size_t NetworkShape::parameters() const {
  size_t sum = 0;
  for (int layer = 0; layer < layers(); ++layer) sum += parameters(layer);
  return sum;
}

std::vector<double> initialParameters(const NetworkShape& shape, int layer, uint64_t seed) {
  std::vector<double> values(shape.parameters(layer));
  const double range =
      layer == 0 ? 0.5 : std::sqrt(3.0 / shape.inputs(layer));  // keeps the variance from layer to layer
  const size_t biases = layer == 0 ? 0 : static_cast<size_t>(shape.outputs(layer));
  for (size_t i = 0; i + biases < values.size(); ++i) values[i] = range * signedUnit(seed, layer, i);
  return values;
}

template <typename Real>
Network<Real>::Network(const NetworkShape& shape, int max_tokens) : shape_(shape) {
  size_t widest = 0;
  for (int layer = 0; layer < shape.layers(); ++layer) {
    const size_t size = static_cast<size_t>(max_tokens) * static_cast<size_t>(shape.outputs(layer));
    activation_.emplace_back(size);
    widest = std::max(widest, size);
  }
  error_.resize(widest);
  error_below_.resize(widest);
}

template <typename Real>
void Network<Real>::begin(std::span<const Example> examples) {
  tokens_ = static_cast<int>(examples.size());
  HORING_CHECK_LE(examples.size() * kBytes, activation_.back().size());
  contexts_.clear();
  next_.clear();
  for (const Example& example : examples) {
    contexts_.insert(contexts_.end(), example.context.begin(), example.context.end());
    next_.push_back(example.next);
  }
}

template <typename Real>
void Network<Real>::forward(int layer, const Real* parameters) {
  if (layer == 0) return forwardEmbedding(parameters);
  const int inputs = shape_.inputs(layer), outputs = shape_.outputs(layer);
  const Real* bias = parameters + static_cast<ptrdiff_t>(inputs) * outputs;
  const bool is_last = layer + 1 == shape_.layers();
  const Real* x = activation_[static_cast<size_t>(layer) - 1].data();
  Real* y = activation_[static_cast<size_t>(layer)].data();
  for (int token = 0; token < tokens_; ++token, x += inputs, y += outputs) {
    std::copy(bias, bias + outputs, y);
    for (int i = 0; i < inputs; ++i)
      addScaled(x[i], parameters + static_cast<ptrdiff_t>(i) * outputs, y, outputs);
    if (!is_last) std::transform(y, y + outputs, y, [](Real z) { return std::tanh(z); });
  }
  if (is_last) closeWithLoss();
}

template <typename Real>
void Network<Real>::forwardEmbedding(const Real* parameters) {
  Real* y = activation_[0].data();
  for (unsigned char byte : contexts_)
    y = std::copy_n(parameters + static_cast<ptrdiff_t>(byte) * shape_.embedding, shape_.embedding, y);
}

template <typename Real>
void Network<Real>::closeWithLoss() {
  loss_ = 0;
  Real* z = activation_.back().data();
  for (int token = 0; token < tokens_; ++token, z += kBytes) {
    const unsigned char next = next_[static_cast<size_t>(token)];
    const Real highest = *std::max_element(z, z + kBytes);
    const Real logit = z[next] - highest;
    Real sum = 0;
    for (int i = 0; i < kBytes; ++i) sum += z[i] = std::exp(z[i] - highest);
    for (int i = 0; i < kBytes; ++i) z[i] /= sum;
    z[next] -= 1;
    loss_ += static_cast<double>(std::log(sum) - logit);
  }
  std::copy(activation_.back().begin(), activation_.back().end(), error_.begin());
}

template <typename Real>
void Network<Real>::backward(int layer, const Real* parameters, Real scale, Real* gradient) {
  if (layer == 0) {
    if (gradient) backwardEmbedding(scale, gradient);
    return;
  }
  const int inputs = shape_.inputs(layer), outputs = shape_.outputs(layer);
  const Real* x = activation_[static_cast<size_t>(layer) - 1].data();
  const Real* dz = error_.data();
  for (int token = 0; gradient && token < tokens_; ++token, x += inputs, dz += outputs) {
    for (int i = 0; i < inputs; ++i)
      addScaled(scale * x[i], dz, gradient + static_cast<ptrdiff_t>(i) * outputs, outputs);
    addScaled(scale, dz, gradient + static_cast<ptrdiff_t>(inputs) * outputs, outputs);
  }
  passErrorDown(layer, parameters);
}

// error_ becomes that of the layer below, before its tanh.
template <typename Real>
void Network<Real>::passErrorDown(int layer, const Real* parameters) {
  const int inputs = shape_.inputs(layer), outputs = shape_.outputs(layer);
  const Real* y = activation_[static_cast<size_t>(layer) - 1].data();
  const Real* dz = error_.data();
  Real* below = error_below_.data();
  for (int token = 0; token < tokens_; ++token, dz += outputs)
    for (int i = 0; i < inputs; ++i, ++y) {
      const Real dy = dot(parameters + static_cast<ptrdiff_t>(i) * outputs, dz, outputs);
      *below++ = layer == 1 ? dy : dy * (1 - *y * *y);
    }
  error_.swap(error_below_);
}

template <typename Real>
void Network<Real>::backwardEmbedding(Real scale, Real* gradient) const {
  const Real* error = error_.data();
  for (unsigned char byte : contexts_) {
    addScaled(scale, error, gradient + static_cast<ptrdiff_t>(byte) * shape_.embedding, shape_.embedding);
    error += shape_.embedding;
  }
}

template class Network<float>;
template class Network<double>;

}  // namespace horing::paro
