#pragma once
// Small machines for the tests of this folder.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "topology/graph_builder.h"
#include "topology/topology_file.h"

namespace horing::test {

inline MachineGraph built(GraphBuilder& builder) {
  Result<MachineGraph> graph = std::move(builder).build();
  EXPECT_TRUE(graph.ok()) << graph.status().toString();
  return graph.ok() ? graph.take() : GraphBuilder().build().take();
}

inline MachineGraph read(const std::string& text) {
  Result<MachineGraph> graph = graphFromText(text);
  EXPECT_TRUE(graph.ok()) << graph.status().toString();
  return graph.ok() ? graph.take() : GraphBuilder().build().take();
}

// The error text; empty: accepted.
inline std::string refusal(const std::string& text) {
  const Result<MachineGraph> graph = graphFromText(text);
  if (graph.ok()) return "";
  EXPECT_EQ(graph.status().code(), Code::kInvalidArgument) << graph.status().toString();
  return graph.status().message();
}

inline std::string fileText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

// `gpus` in one NUMA node each, without any link between them.
inline GraphBuilder scattered(int gpus) {
  GraphBuilder builder;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const int32_t numa = builder.add({NodeKind::kNuma, 0, std::to_string(gpu), kAssumedPackageGBytesPerS});
    const std::string bus = formatString("0000:%02x:00.0", gpu + 1);
    builder.add({NodeKind::kGpu, numa, bus, 16, 0, bus});
  }
  return builder;
}

}  // namespace horing::test
