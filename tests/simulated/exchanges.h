#pragma once
// Groups of sends and receives between all ranks of a communicator, in one thread and in virtual time. A seed decides everything:
// the messages, when links come up, the delays, and the fault.
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/host/point_to_point.h"
#include "network.h"
#include "scenario.h"

namespace horing::simulated {

class Exchanges {
 public:
  explicit Exchanges(uint64_t seed);
  ~Exchanges();
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;

  struct Outcome {
    // Empty on success: without a fault every rank has received all its messages; with one, each rank has or ends with an error,
    // and none waits for ever. Else a description of the failure.
    std::string failure;
    uint64_t messages = 0;     // received in full
    uint64_t fingerprint = 0;  // of all that happened, in order
    int errors = 0;            // ranks that ended with an error
  };
  Outcome run();
  std::string describe() const;
  Fault fault() const { return fault_; }

 private:
  // The sends and receives of all ranks are the two ends of these.
  struct Message {
    int from = 0;
    int to = 0;
    size_t bytes = 0;
    std::vector<std::byte> sent, received;
  };
  struct Rank;

  void poll(int rank);
  void begin(Rank& rank);
  void complete(Rank& rank);
  void leave(Rank& rank);
  void finish(Rank& rank, Status error);
  void inflictFault();
  void check(const Message& message);
  void fail(const std::string& what);
  std::string verdict() const;
  bool isOdd(const Message& message) const { return &message == odd_one_; }

  uint64_t seed_;
  Dice dice_;
  EventQueue events_;
  int ranks_count_;
  LinkShape shape_;
  Weather weather_;
  Network network_;
  std::vector<std::deque<Message>> groups_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Fault fault_ = Fault::kNone;
  uint64_t fault_after_ = UINT64_MAX;  // slots
  const Message* odd_one_ = nullptr;   // whose receiver expects another size
  uint64_t received_ = 0;
  std::string failure_;
};

}  // namespace horing::simulated
