#include "horing_check/reach.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/listener.h"

namespace horing::check {

namespace {

using ReachClock = std::chrono::steady_clock;

constexpr int kReachLookMs = 50;

struct Attempt {
  size_t node;
  Fd fd;
};

bool isConnected(const Fd& fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

void tryAll(const std::vector<Doors>& nodes, std::chrono::milliseconds within, std::vector<bool>& reached) {
  std::vector<Attempt> attempts;
  for (size_t node = 0; node < nodes.size(); ++node)
    for (const Endpoint& door : nodes[node]) {
      if (door.port == 0 || reached[node]) break;
      Result<Fd> opened = openSocket(door.address.family);
      if (!opened.ok())
        reached[node] = true;
      else if (Fd fd = opened.take(); beginConnect(fd.get(), door) == 0)
        attempts.push_back({node, std::move(fd)});
    }
  const ReachClock::time_point until = ReachClock::now() + within;
  const auto is_over = [&](const Attempt& attempt) { return !attempt.fd.valid() || reached[attempt.node]; };
  while (std::erase_if(attempts, is_over), !attempts.empty() && ReachClock::now() < until) {
    std::vector<pollfd> waiting;
    for (const Attempt& attempt : attempts) waiting.push_back({attempt.fd.get(), POLLOUT, 0});
    (void)::poll(waiting.data(), waiting.size(), kReachLookMs);
    for (size_t i = 0; i < attempts.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      if (isConnected(attempts[i].fd)) reached[attempts[i].node] = true;
      attempts[i].fd.reset();
    }
  }
}

}  // namespace

Doors doorsOf(const NodePort& port) {
  std::vector<Endpoint> open;
  // Whoever connects to a link-local address has to say by which interface.
  for (const Address& address : port.addresses)
    if (!address.isLinkLocal()) open.push_back({address, port.listener.port});
  Doors doors{};
  if (open.size() <= doors.size()) std::ranges::copy(open, doors.begin());
  return doors;
}

std::vector<bool> connectToAll(const std::vector<Doors>& nodes, std::chrono::milliseconds within) {
  std::vector<bool> reached(nodes.size());
  for (size_t node = 0; node < nodes.size(); ++node) reached[node] = nodes[node][0].port == 0;
  tryAll(nodes, within, reached);
  tryAll(nodes, within, reached);
  return reached;
}

std::vector<int> leftOut(std::vector<NodePair> blocked) {
  std::vector<int> left;
  while (!blocked.empty()) {
    std::map<int, int> pairs;  // by node
    for (const auto& [lower, higher] : blocked) {
      if (lower != 0) ++pairs[lower];
      ++pairs[higher];
    }
    int node = 0, most = 0;
    for (const auto& [each, count] : pairs)
      if (count >= most) node = each, most = count;
    left.push_back(node);
    std::erase_if(blocked, [&](const NodePair& pair) { return pair.first == node || pair.second == node; });
  }
  std::ranges::sort(left);
  return left;
}

}  // namespace horing::check
