#pragma once
// One emulated node: a process that only holds a set of namespaces.
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace horing::run {

// A resource: the node exists, with all processes in it, until this object or the process that made it ends.
// The holder is process 1 of the node's pid namespace; when it dies the kernel kills every other process
// there.
class IsolatedNode {
 public:
  struct Spec {
    // Host name inside.
    std::string name;
    // Size of /dev/shm; 0: the kernel's default.
    int shm_mib = 0;
  };
  // Needs gainNamespacePrivileges(). Has its own network, /dev/shm, /proc, /sys, host name, System V IPC and
  // pids.
  static Result<std::unique_ptr<IsolatedNode>> create(const Spec& spec);
  ~IsolatedNode();
  IsolatedNode(const IsolatedNode&) = delete;
  IsolatedNode& operator=(const IsolatedNode&) = delete;

  // The holder, as this process sees it.
  pid_t pid() const { return pid_; }
  int network() const { return network_.get(); }

  // In a forked child: moves into the node and keeps the current folder. Only processes forked afterwards are
  // in the node's pid namespace.
  Status enter() const;

 private:
  IsolatedNode() = default;
  Status openNamespaces();

  pid_t pid_ = -1;
  Fd network_;
  // The namespaces to enter in this order; the mount namespace last, since /proc changes with it.
  std::vector<Fd> others_;
  Fd root_;  // of the holder
};

}  // namespace horing::run
