#pragma once
// Collectives to run on the engine for GPUs and on the host engine, and their buffers.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "algorithms/catalogue.h"
#include "engine/host/operation.h"
#include "world.h"

namespace horing::test {

struct Case {
  std::string algorithm;
  Collective collective = Collective::kAllReduce;
  Shape shape;
  int32_t parts = 1;
  int32_t window = 4;
  uint32_t slot_bytes = 1024;

  // As kernels reach for buffers of other ranks.
  bool isOneLaunch() const { return findAlgorithm(algorithm)->reachesPeers(); }
};

inline std::string text(const Case& c) {
  return formatString("%s %s, %d x %d (%d ranks), %d parts, window %d", c.algorithm.c_str(),
                      collectiveName(c.collective), c.shape.groups, c.shape.members, c.shape.ranks(), c.parts,
                      c.window);
}

// Inputs and outputs of all positions.
struct Buffers {
  Buffers(const Case& c, DataType type, size_t count) {
    const auto n = static_cast<size_t>(c.shape.ranks());
    const Contract contract = contractOf(c.collective);
    const size_t block = count * dataTypeBytes(type);
    const size_t in = blocksIn(contract.in, c.collective, c.shape.ranks()) * block;
    const size_t out = blocksIn(contract.out, c.collective, c.shape.ranks()) * block;
    std::mt19937 random(static_cast<unsigned>(count));
    for (size_t p = 0; p < n; ++p) {
      inputs.emplace_back(in);
      outputs.emplace_back(out, std::byte{0x77});
      for (size_t at = 0; at < in; at += dataTypeBytes(type)) {
        const float value = static_cast<float>(static_cast<int>(random() % 4001) - 2000) / 997.0f;
        const uint64_t whole = random();
        std::memcpy(&inputs.back()[at],
                    type == DataType::kFloat32 ? static_cast<const void*>(&value) : &whole,
                    dataTypeBytes(type));
      }
    }
  }
  std::vector<Call> calls(DataType type, RedOp op, size_t count) {
    std::vector<Call> all;
    for (size_t p = 0; p < inputs.size(); ++p) {
      Call call;
      call.input = inputs[p].data();
      call.output = outputs[p].data();
      call.count = count;
      call.type = type;
      call.op = op;
      if (op == RedOp::kPreMulSum) call.factor_at = inputs[p].data();  // another one on every rank
      all.push_back(call);
    }
    return all;
  }
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::vector<std::byte>> outputs;
};

// In every shape.
inline std::vector<Case> everyAlgorithm(std::vector<Shape> shapes) {
  std::vector<Case> cases;
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (int collective = 0; collective < kCollectives; ++collective)
      for (const Shape& shape : shapes)
        if (algorithm.has(static_cast<Collective>(collective)))
          cases.push_back({algorithm.name, static_cast<Collective>(collective), shape});
  return cases;
}

// What the host engine puts into the outputs.
inline void expectHostResults(const Case& c, Buffers& buffers, DataType type, RedOp op, size_t count) {
  World host({.algorithm = c.algorithm, .collective = c.collective, .shape = c.shape, .slots = 9});
  EXPECT_TRUE(host.run(buffers.calls(type, op, count)));
}

}  // namespace horing::test
