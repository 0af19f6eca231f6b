#include "horing_paro/train/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace horing::paro {
namespace {

constexpr size_t kCount = 2500;  // more than is converted at a time

// Adam as its paper writes it, in double.
struct Reference {
  double m = 0, v = 0, w = 0;
  void update(const Adam& adam, int step, double g) {
    m = adam.beta1 * m + (1 - adam.beta1) * g;
    v = adam.beta2 * v + (1 - adam.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(adam.beta1, step)), v_hat = v / (1 - std::pow(adam.beta2, step));
    w -= adam.learning_rate * m_hat / (std::sqrt(v_hat) + adam.epsilon);
  }
};

double gradientOf(size_t i, int step) {
  return std::sin(static_cast<double>(i) * 0.7 + step) * 0.125;
}

template <typename State, typename Wire>
void compare(horingDataType_t wire, horingDataType_t state, double tolerance, Wire (*as_wire)(double),
             double (*value)(Wire)) {
  const Adam adam;
  std::vector<Reference> references(kCount);
  std::vector<State> master(kCount), momentum(kCount), variance(kCount);
  std::vector<Wire> gradient(kCount);
  for (int step = 1; step <= 3; ++step) {
    for (size_t i = 0; i < kCount; ++i) {
      gradient[i] = as_wire(gradientOf(i, step));
      references[i].update(adam, step, value(gradient[i]));
    }
    updateWithAdam(adam, step,
                   {sizeof(horingParoShard_t),
                    0,
                    kCount,
                    wire,
                    gradient.data(),
                    state,
                    master.data(),
                    {momentum.data(), variance.data(), nullptr, nullptr}});
  }
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_NEAR(static_cast<double>(master[i]), references[i].w, tolerance) << i;
}

TEST(Adam, IsThatOfItsPaper) {
  compare<double, double>(
      horingFloat64, horingFloat64, 1e-14, [](double g) { return g; }, [](double g) { return g; });
  compare<float, float>(
      horingFloat32, horingFloat32, 1e-7, [](double g) { return static_cast<float>(g); },
      [](float g) { return static_cast<double>(g); });
}

TEST(Adam, TakesGradientsInHalfPrecision) {
  const auto to_bfloat16 = [](double g) {
    const auto narrow = static_cast<float>(g);
    uint16_t bits = 0;
    EXPECT_EQ(horingParoConvert(&narrow, horingFloat32, &bits, horingBfloat16, 1), horingSuccess);
    return bits;
  };
  const auto from_bfloat16 = [](uint16_t bits) {
    float wide = 0;
    EXPECT_EQ(horingParoConvert(&bits, horingBfloat16, &wide, horingFloat32, 1), horingSuccess);
    return static_cast<double>(wide);
  };
  compare<float, uint16_t>(horingBfloat16, horingFloat32, 1e-7, to_bfloat16, from_bfloat16);
}

}  // namespace
}  // namespace horing::paro
