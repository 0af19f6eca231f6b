#pragma once
// The ranks that measure: the first rank of each node, in a separate communicator.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "horing/horing.h"
#include "horing_check/rails.h"
#include "horing_check/reach.h"
#include "horing_check/time_limit.h"

namespace horing::check {

// How long a call may wait if the check ends then: a second even if it is over.
int waitMsUntil(std::chrono::steady_clock::time_point end);

// Ok, or the error of the call that this thread has just made, with its full text.
Status called(horingResult_t result, const char* what);

// A resource: ends its communicator. Members are collective over the nodes, except plain getters. One thread.
class Nodes {
 public:
  // Collective over all ranks. Errors: the library's, which name ranks that did not arrive; kInvalidUsage if all ranks are on one node.
  static Result<Nodes> meet(int timeout_ms, TimeLimit& time_limit);
  Nodes(Nodes&& other) noexcept;
  ~Nodes();

  // This node's number; -1: the rank does not measure.
  int self() const { return self_; }
  int count() const { return static_cast<int>(names_.size()); }
  int ranks() const { return ranks_; }
  // Host names, made unique.
  const std::vector<std::string>& names() const { return names_; }
  horingComm_t comm() const { return comm_; }
  TimeLimit& timeLimit() const { return *time_limit_; }
  // Between two ranks of this node, measured when they met; 0: it has one, or the rank does not measure.
  double sharedBytesPerS() const { return shared_bytes_per_s_; }
  // The pairs of nodes between which no connection comes about, by name, and the nodes that were left out for that: they do not measure.
  const std::vector<std::pair<std::string, std::string>>& blocked() const { return blocked_; }
  const std::vector<std::string>& leftOut() const { return left_out_; }
  // By rail, the name of that adapter on each node; as many as the node with the fewest has, none if it has one, or if nodes have different
  // kinds.
  const std::vector<std::vector<std::string>>& rails() const { return rail_names_; }
  // Of this node.
  const Rails& ownRails() const { return rails_; }
  // The same nodes, in a communicator that uses only this adapter of each.
  Result<Nodes> onRail(int rail);
  // After an error: the node that caused it; -1: none in particular.
  int failedNode() const;

  // Limits the wait of later calls, and of communicators that are made later (waitMsUntil). Nodes other than 0 wait half a second longer, so
  // that node 0, which reports, says what it waited for.
  Status limitWaits(std::chrono::steady_clock::time_point end);
  // Broadcasts `bytes` of one node.
  Status broadcast(void* value, size_t bytes, int from);
  // Broadcasts node 0's values.
  Status broadcast(std::vector<int32_t>& values) {
    return broadcast(values.data(), values.size() * sizeof values[0], 0);
  }
  // The least value of all nodes.
  Result<double> least(double value);
  // Gathers `bytes` from each node, in order.
  Result<std::vector<char>> gather(const void* value, size_t bytes);
  // Gathers a text from each node, in order.
  Result<std::vector<std::string>> gatherTexts(const std::string& text);

 private:
  Nodes() = default;
  void use(horingComm_t comm);
  Status leaveOutUnreached(const std::vector<int>& leaders, int within_ms);
  Status keepOthersThan(const std::vector<NodePair>& blocked);
  Status splitOff();
  Status compareRails();
  Result<Nodes> meetAgain();

  horingComm_t comm_ = nullptr;
  TimeLimit* time_limit_ = nullptr;
  int self_ = -1, ranks_ = 0;
  double shared_bytes_per_s_ = 0;
  std::vector<std::string> names_, left_out_;
  std::vector<std::pair<std::string, std::string>> blocked_;
  Rails rails_;
  std::vector<std::vector<std::string>> rail_names_;
};

}  // namespace horing::check
