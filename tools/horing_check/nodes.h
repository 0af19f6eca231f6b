#pragma once
// The ranks that measure: the first one of each node, in a communicator of their own.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/horing.h"

namespace horing::check {

// Ok, or the library's error with its full text.
Status called(horingResult_t result, horingComm_t comm, const char* what);

// A resource: ends its communicator. Members are collective over the nodes, unless they only return what is known. One thread.
class Nodes {
 public:
  // Collective over all ranks. Errors: the library's, which name ranks that did not arrive; kInvalidUsage where all are on one node.
  static Result<Nodes> meet(int timeout_ms);
  Nodes(Nodes&& other) noexcept;
  ~Nodes();

  // This node's number; -1: the rank does not measure, and has nothing to do.
  int self() const { return self_; }
  int count() const { return static_cast<int>(names_.size()); }
  int ranks() const { return ranks_; }
  // Host names, made different where two are the same.
  const std::vector<std::string>& names() const { return names_; }
  horingComm_t comm() const { return comm_; }
  // After an error: the node that it is about; -1: none in particular.
  int failedNode() const;

  // No later call waits longer.
  Status limitWaits(int timeout_ms);
  // Node 0's values, for all.
  Status broadcast(std::vector<int32_t>& values);
  // Of all nodes `bytes` each, in order.
  Result<std::vector<char>> gather(const void* value, size_t bytes);
  // Of all nodes one text each, in order.
  Result<std::vector<std::string>> gatherTexts(const std::string& text);

 private:
  Nodes() = default;

  horingComm_t comm_ = nullptr;
  int self_ = -1, ranks_ = 0;
  std::vector<std::string> names_;
};

}  // namespace horing::check
