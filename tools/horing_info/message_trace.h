#pragma once
// The messages in flight records, and which rank kept them waiting.
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace horing::info {

// As in a record (control/flight_file.h). A value.
struct TracedMessage {
  uint64_t sequence = 0;
  std::string call, state;
  int peer = 0;  // of a group: how many messages it has
  uint64_t bytes = 0;
  uint64_t number = 0;  // with has_tag: its tag; of a message that a kernel carries: 0
  bool has_tag = false;
  std::string mark;  // what tells it from others: " (#7)", " with tag 9", " (launch #2)"
  int64_t enqueued_ns = 0;

  bool isOpen() const { return state != "complete"; }
  bool isGroup() const { return call == "group"; }
};

// Of one rank, oldest first: those that the host moves, and those that kernels carry.
struct MessagesOfRank {
  std::vector<TracedMessage> host, kernels;
  bool is_in_call = false;  // in a collective, or its GPU is in a launch
  int64_t now_ns = 0;       // when the record was written
};

// `ranks`: of the job. Throws json::exception or std::logic_error if the messages are not in that format.
std::vector<TracedMessage> parseMessages(const nlohmann::json& from, int ranks);

// Of one rank: "in recv of 8 bytes from rank 1 (#3) for 1200 ms"; empty: none is open.
std::string openMessagesText(const std::vector<TracedMessage>& messages, int64_t now_ns);

// Of all ranks that left a record: "rank 0 has waited 1200 ms in recv of 8 bytes from rank 1 (#3), and rank 1 has not begun the
// send for it". Only what the records prove: what waits for ranks without a record first, then what has waited longest; the last one may
// say how many more there are. `was_lost`: a rank was, and is the cause, so only what waits for ranks without a record.
std::vector<std::string> verdictsOnMessages(const std::map<int, MessagesOfRank>& of_ranks, bool was_lost);

}  // namespace horing::info
