#pragma once
// Which nodes still run, after one was lost: the library names the first that it misses, and ends the communicator. Each node has a status
// port, where a thread answers, whatever the node does meanwhile.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/endpoint.h"
#include "base/listener.h"
#include "base/service_thread.h"
#include "horing_check/nodes.h"

namespace horing::check {

// Callers that do not know it get no answer. Drawn for each check.
using RollCallKey = std::array<std::byte, 16>;

// What a caller asks. Only the roll call, by the node that reports, lets nodes leave.
enum class Request : char { kThere = 't', kRollCall = 'r' };

// A resource: a port and a thread. Any thread. Anybody may connect: callers are few at a time, and each has a second.
class StatusPort {
 public:
  // At the first address that horing uses, within HORING_PORTS. Errors: no address or port, no thread.
  static Result<std::unique_ptr<StatusPort>> open(const RollCallKey& key, const Rails& rails);
  ~StatusPort();
  StatusPort(const StatusPort&) = delete;
  StatusPort& operator=(const StatusPort&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }
  bool heardRollCall() const { return heard_.load(); }

 private:
  struct Caller;
  StatusPort(const RollCallKey& key, Listener listener, const Address& address);
  void answerAll();
  // False: nothing more comes from this caller.
  bool hear(Caller& caller);

  const RollCallKey key_;
  Fd listener_;
  Endpoint endpoint_;
  std::atomic<bool> heard_ = false, is_closing_ = false;
  ServiceThread thread_;
};

// Best first. kSilent: within the time; the process may be stopped, or hardly run. kGone: nobody is there, or nothing leads there.
enum class Answer : uint8_t { kHere, kSilent, kGone };
// All are called at once, but for many, which share the time. A port that this process cannot call, for want of a descriptor, counts as here.
std::vector<Answer> callPorts(const std::vector<Endpoint>& ports, const RollCallKey& key, Request request,
                              std::chrono::steady_clock::time_point until);

// The status ports of all nodes. One thread.
class RollCall {
 public:
  // Collective. Nodes whose port node 0 does not reach are not looked for later: they, or it, are behind a firewall.
  Status prepare(Nodes& nodes);
  // After an error, on every node: the nodes that do not answer, on the one that reports, which is node 0, or else the lowest that runs.
  // Nothing on the others. Waits for a few seconds, and not longer than to `latest`.
  std::optional<std::vector<int>> missing(std::chrono::steady_clock::time_point latest);
  // Whether missing() names the node if it does not answer.
  bool looksFor(int node) const { return !ports_.empty() && ports_[static_cast<size_t>(node)].port != 0; }
  // On node 0 at the end: no other node reports.
  void dismiss();

 private:
  std::vector<Endpoint> portsOf(const std::vector<int>& nodes) const;
  Answer below(std::chrono::steady_clock::time_point latest) const;
  std::vector<int> callAll(std::chrono::steady_clock::time_point until) const;

  int self_ = 0;
  RollCallKey key_{};
  std::unique_ptr<StatusPort> port_;
  std::vector<Endpoint> ports_;  // by node; port 0: not looked for
};

}  // namespace horing::check
