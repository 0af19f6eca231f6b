#pragma once
// A graph as streams record it: each work keeps only its recorded dependencies, and a replay runs independent work concurrently, so
// that a missing dependency shows.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace horing::fake {

struct Graph {
  struct Work {
    std::function<void()> run;
    std::vector<size_t> behind;
    std::function<std::function<void()>()> bind{};  // if set, makes `run` at each launch
  };
  uint64_t number = 0;
  bool forbids_others = true;  // to allocate, or to look, while it is recorded
  int broken_off_before = 0;   // recordings, when this one began
  std::vector<Work> works;

  bool isChain() const {
    for (size_t i = 1; i < works.size(); ++i)
      if (works[i].behind != std::vector<size_t>{i - 1}) return false;
    return true;
  }
  // With the events outside as they are at this launch.
  void bind() {
    for (Work& work : works)
      if (work.bind) work.run = work.bind();
  }
  void replay() const {
    if (isChain()) {
      for (const Work& work : works) work.run();
      return;
    }
    std::vector<std::shared_future<void>> done;
    for (const Work& work : works) {
      std::vector<std::shared_future<void>> behind;
      for (const size_t before : work.behind) behind.push_back(done[before]);
      done.push_back(std::async(std::launch::async, [run = work.run, behind = std::move(behind)] {
                       for (const auto& before : behind) before.wait();
                       run();
                     }).share());
    }
    for (const auto& each : done) each.wait();
  }
};

// A place in a graph: of a stream that records, or of an event that it has recorded.
struct GraphPlace {
  std::shared_ptr<Graph> graph;  // null: in none
  std::vector<size_t> behind;    // works of it

  void add(std::function<void()> run) {
    graph->works.push_back({std::move(run), behind});
    behind = {graph->works.size() - 1};
  }
  void addBound(std::function<std::function<void()>()> bind) {
    add({});
    graph->works.back().bind = std::move(bind);
  }
  void comeBehind(const GraphPlace& other) {
    for (const size_t work : other.behind)
      if (std::find(behind.begin(), behind.end(), work) == behind.end()) behind.push_back(work);
  }
  // Whether all that was recorded comes before it.
  bool isBehindAll() const {
    std::vector<size_t> open = behind, seen = behind;
    while (!open.empty()) {
      const size_t work = open.back();
      open.pop_back();
      for (const size_t before : graph->works[work].behind)
        if (std::find(seen.begin(), seen.end(), before) == seen.end()) {
          seen.push_back(before);
          open.push_back(before);
        }
    }
    return seen.size() == graph->works.size();
  }
};

}  // namespace horing::fake
