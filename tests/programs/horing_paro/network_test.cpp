#include "horing_paro/train/network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "horing_paro/train/corpus.h"

namespace horing::paro {
namespace {

constexpr int kTokens = 5;

std::vector<Example> someExamples(const NetworkShape& shape) {
  const Batches batches(corpus(), shape.context, 7);
  std::vector<Example> examples;
  for (int i = 0; i < kTokens; ++i) examples.push_back(batches.example(3, i));
  return examples;
}

std::vector<std::vector<double>> someParameters(const NetworkShape& shape) {
  std::vector<std::vector<double>> parameters;
  for (int layer = 0; layer < shape.layers(); ++layer) {
    parameters.push_back(initialParameters(shape, layer, 11));
    for (size_t i = 0; i < parameters.back().size(); ++i)  // biases, too, are to be something
      parameters.back()[i] += 0.05 * std::sin(static_cast<double>(i + static_cast<size_t>(layer)));
  }
  return parameters;
}

double lossOf(Network<double>& network, const std::vector<std::vector<double>>& parameters) {
  for (size_t layer = 0; layer < parameters.size(); ++layer)
    network.forward(static_cast<int>(layer), parameters[layer].data());
  return network.loss();
}

const NetworkShape kShapes[] = {{.context = 3, .embedding = 2, .hidden = 5, .hidden_layers = 1},
                                {.context = 1, .embedding = 11, .hidden = 9, .hidden_layers = 3}};

TEST(Network, GradientsAreTheSlopesOfTheLoss) {
  for (const NetworkShape& shape : kShapes) {
    Network<double> network(shape, kTokens);
    network.begin(someExamples(shape));
    std::vector<std::vector<double>> parameters = someParameters(shape);
    (void)lossOf(network, parameters);
    std::vector<std::vector<double>> gradients;
    for (const auto& layer : parameters) gradients.emplace_back(layer.size());
    for (int layer = shape.layers() - 1; layer >= 0; --layer)
      network.backward(layer, parameters[static_cast<size_t>(layer)].data(), 0.5,
                       gradients[static_cast<size_t>(layer)].data());
    for (size_t layer = 0; layer < parameters.size(); ++layer) {
      int moved = 0;
      for (size_t i = 0; i < parameters[layer].size(); ++i) {
        double& parameter = parameters[layer][i];
        const double at = parameter, h = 1e-5;
        parameter = at + h;
        const double above = lossOf(network, parameters);
        parameter = at - h;
        const double below = lossOf(network, parameters);
        parameter = at;
        const double slope = 0.5 * (above - below) / (2 * h);
        ASSERT_NEAR(gradients[layer][i], slope, 1e-8 + 1e-6 * std::abs(slope))
            << "layer " << layer << " element " << i;
        moved += std::abs(slope) > 1e-6 ? 1 : 0;
      }
      EXPECT_GT(moved, 3) << "layer " << layer;  // something was compared
    }
  }
}

TEST(Network, AddsToTheGradientThatIsThere) {
  const NetworkShape& shape = kShapes[0];
  Network<double> network(shape, kTokens);
  const std::vector<std::vector<double>> parameters = someParameters(shape);
  const int last = shape.layers() - 1;
  std::vector<double> once(shape.parameters(last)), twice(shape.parameters(last));
  for (int time = 0; time < 2; ++time) {
    network.begin(someExamples(shape));
    (void)lossOf(network, parameters);
    network.backward(last, parameters.back().data(), 1, twice.data());
    if (time == 0) once = twice;
  }
  for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-12);
}

TEST(Network, InFloatIsThatInDoubleButForRounding) {
  const NetworkShape& shape = kShapes[1];
  Network<double> wide(shape, kTokens);
  Network<float> narrow(shape, kTokens);
  wide.begin(someExamples(shape));
  narrow.begin(someExamples(shape));
  const std::vector<std::vector<double>> parameters = someParameters(shape);
  for (int layer = 0; layer < shape.layers(); ++layer) {
    const std::vector<double>& values = parameters[static_cast<size_t>(layer)];
    narrow.forward(layer, std::vector<float>(values.begin(), values.end()).data());
  }
  EXPECT_NEAR(narrow.loss(), lossOf(wide, parameters), 1e-4);
  EXPECT_NEAR(narrow.loss() / kTokens, std::log(256), 1.0);  // it guesses
}

TEST(Batches, DependOnSeedAndStepAlone) {
  const Batches one(corpus(), 8, 1), same(corpus(), 8, 1), other(corpus(), 8, 2);
  EXPECT_EQ(one.example(5, 9).context.data(), same.example(5, 9).context.data());
  EXPECT_NE(one.example(5, 9).context.data(), other.example(5, 9).context.data());
  EXPECT_NE(one.example(5, 9).context.data(), one.example(6, 9).context.data());
  for (int i = 0; i < 1000; ++i) {
    const Example example = one.example(1, i);
    ASSERT_EQ(example.context.size(), 8u);
    ASSERT_GE(example.context.data(), corpus().data());
    ASSERT_LT(example.context.data() + 8, corpus().data() + corpus().size());
    EXPECT_EQ(static_cast<char>(example.next), example.context.data()[8]);
  }
}

}  // namespace
}  // namespace horing::paro
