#pragma once
// The code that reads untrusted bytes, each part behind one function. For any bytes, it must not crash, leak, wait for ever, or accept a
// value outside its limits.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace horing::fuzz {

using Bytes = std::span<const std::byte>;

struct Target {
  const char* name;
  void (*run)(Bytes bytes);
};
std::span<const Target> targets();
const Target* findTarget(std::string_view name);

// bootstrap_fuzz.cpp
void controlMessages(Bytes bytes);  // what ranks and the rendezvous say, encoded again
void rendezvous(Bytes bytes);       // ranks that say anything in any order
void handshake(Bytes bytes);        // strangers before the proof, sealed frames after it
void controlChannel(Bytes bytes);   // a peer that holds the key, and then sends anything
void pmi1(Bytes bytes);             // an mpiexec that answers anything
// socket_fuzz.cpp
void published(Bytes bytes);   // addresses of sockets that a rank publishes
void acceptor(Bytes bytes);    // greetings on a data connection
void socketLink(Bytes bytes);  // frames, against messages of this end
// shm_fuzz.cpp
void shmAddress(Bytes bytes);
void shmFiles(Bytes bytes);   // presence page and rows that a peer made, or overwrote
void slotQueue(Bytes bytes);  // counters and headers that change under both ends
// verbs_fuzz.cpp
void verbsPublished(Bytes bytes);  // RDMA ports that a rank publishes
void verbsDevices(Bytes bytes);    // HORING_IB_HCA
void verbsLink(Bytes bytes);       // words and writes of a peer, while wires come and go
// text_fuzz.cpp
void uniqueId(Bytes bytes);
void scheduleText(Bytes bytes);  // and the verifier on the result
void environment(Bytes bytes);   // values of HORING_ and of launchers' variables, addresses in text
void hostIdentity(Bytes bytes);
void gpuOffer(Bytes bytes);

// topology_fuzz.cpp
void topologyText(Bytes bytes);
void rankPlace(Bytes bytes);
void slurmTopology(Bytes bytes);
// selection_fuzz.cpp
void selectionText(Bytes bytes);  // tables, machines, HORING_ALGO

// Takes an input apart; past its end come zeros and empty texts.
class Input {
 public:
  explicit Input(Bytes bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  template <typename Number>
  Number number() {
    Number value{};
    const Bytes field = bytes(sizeof value);
    if (!field.empty()) std::memcpy(&value, field.data(), field.size());
    return value;
  }
  // At most so many.
  Bytes bytes(size_t most) {
    const Bytes field = rest_.first(most < rest_.size() ? most : rest_.size());
    rest_ = rest_.subspan(field.size());
    return field;
  }
  // Length first, one byte.
  Bytes piece() { return bytes(number<uint8_t>()); }
  Bytes all() { return bytes(rest_.size()); }
  // To the end of the line.
  std::string line() {
    std::string text;
    while (!empty()) {
      const char letter = number<char>();
      if (letter == '\n') break;
      text.push_back(letter);
    }
    return text;
  }

 private:
  Bytes rest_;
};

inline std::string_view textOf(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace horing::fuzz
