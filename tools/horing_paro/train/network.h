#pragma once
// The language model: predicts a byte from the bytes before it (Bengio et al. 2003). Layer 0 embeds each byte of the context, then
// come layers of tanh, then one that gives a logit for each byte; the loss is the cross entropy of the next byte.
//
// A layer's parameters are one vector: the embedding [byte][element]; of the others the weights [input][output], then biases.
// Gradients are derived by hand, layer by layer:
//   p = softmax(z):        dL/dz = p - onehot(next)
//   z = x W + b:           dL/dW = x^T dz, dL/db = sum dz, dL/dx = dz W^T
//   y = tanh(z):           dz = dy (1 - y^2)
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "horing_paro/train/batch.h"

namespace horing::paro {

inline constexpr int kBytes = 256;

struct NetworkShape {
  int context = 16;    // bytes seen
  int embedding = 16;  // elements per byte
  int hidden = 128;    // width of a tanh layer
  int hidden_layers = 1;

  int layers() const { return hidden_layers + 2; }
  int inputs(int layer) const;   // of layers 1 and above
  int outputs(int layer) const;  // per token
  size_t parameters(int layer) const;
  size_t parameters() const;
};

// Values to begin with: the same for every type but for rounding. Layer and seed alone decide.
std::vector<double> initialParameters(const NetworkShape& shape, int layer, uint64_t seed);

// Activations of one micro-step; the parameters come with each call. Real: float or double.
template <typename Real>
class Network {
 public:
  Network(const NetworkShape& shape, int max_tokens);

  // What forward() and backward() are about, at most max_tokens; its bytes are copied.
  void begin(std::span<const Example> examples);
  // Layers in order, 0 first.
  void forward(int layer, const Real* parameters);
  // Of the whole micro-step, in nats, a sum over tokens; after the last forward().
  double loss() const { return loss_; }
  // Layers from the last on; adds `scale` times the gradient of loss() to `gradient`. Null: not wanted.
  void backward(int layer, const Real* parameters, Real scale, Real* gradient);

 private:
  void forwardEmbedding(const Real* parameters);
  void backwardEmbedding(Real scale, Real* gradient) const;
  // Turns logits into their gradient, and sets the loss.
  void closeWithLoss();
  void passErrorDown(int layer, const Real* parameters);

  NetworkShape shape_;
  int tokens_ = 0;
  double loss_ = 0;
  std::vector<unsigned char> contexts_;  // [token][context]
  std::vector<unsigned char> next_;      // [token]
  std::vector<std::vector<Real>>
      activation_;           // of each layer: [token][output]; of the last, the gradient of its logits
  std::vector<Real> error_;  // gradient of the layer that backward() takes next: [token][output]
  std::vector<Real> error_below_;
};

extern template class Network<float>;
extern template class Network<double>;

}  // namespace horing::paro
