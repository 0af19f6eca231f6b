#pragma once
// Network namespaces that only descriptors and processes hold, and commands that run inside them.
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace horing::run {

// Makes sure that this process may make namespaces: as it is (root), else as root of a user namespace that it
// enters. The error names both attempts and what to change. Call once, before any other thread or child
// exists.
Status gainNamespacePrivileges();

// A namespace with nothing in it; gone when the last descriptor is closed.
Result<Fd> makeNetworkNamespace();

// Commands to run inside a network namespace, in this order.
struct NetworkCommands {
  // File below /proc/sys/net (such as "ipv4/tcp_rmem") and its new value. Best effort: settings that fail are skipped.
  std::vector<std::pair<std::string, std::string>> settings;
  // Text for `ip -batch` and for `tc -batch`; empty: not run.
  std::string ip_batch;
  std::string tc_batch;
};
// `what` names the namespace in error messages, which carry the output of the failing program.
Status runInNetwork(int network, const std::string& what, const NetworkCommands& commands);

}  // namespace horing::run
