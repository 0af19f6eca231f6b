#pragma once
// Work that takes time and shares what it runs on: messages on lines, and computation on cores.
//
// A *pipe* serves its jobs one after another: a connection its messages, a rank its computation. While it does, it draws on
// *resources* (a NIC's two directions, the cores of a node), each of which serves the pipes that draw on it at that moment in
// equal shares. A pipe is as fast as the least of its shares; what another resource could give beyond that stays unused.
#include <array>
#include <cstdint>
#include <queue>
#include <vector>

#include "schedule/symbol_pool.h"
#include "sim/machine_model.h"

namespace horing {

class SharedPipes {
 public:
  static constexpr size_t kMaxResources = 3;  // of one pipe
  using Resources = std::array<int32_t, kMaxResources>;
  static constexpr Resources kNoResources = {-1, -1, -1};

  // `cost`: picoseconds that a unit of work takes it, if one pipe uses it alone. Numbered from 0.
  int32_t addResource(double cost);
  // `own_cost`: the same of the pipe itself, whoever else is there. Numbered from 0. -1: no resource.
  int32_t addPipe(double own_cost, const Resources& resources);

  // Queues a job behind those the pipe has.
  void push(int32_t pipe, double work);

  // After all pushes of a moment: gives everyone its share from `now` on.
  void settle(Picoseconds now);
  // When the next job is done; kNever if none runs. After settle().
  static constexpr Picoseconds kNever = INT64_MAX;
  Picoseconds nextEnd();
  // The pipe of a job that is done at `now`, which then begins its next one; -1: none any more.
  int32_t popEnded(Picoseconds now);

  // How often a share was worked out, which is what it all takes: each change does it for all that share a resource.
  int64_t sharings() const { return sharings_; }
  size_t resources() const { return resources_.size(); }
  // Picoseconds that the resource was needed for, were it used by one pipe at a time.
  double busy(int32_t resource) const {
    return resources_[static_cast<size_t>(resource)].work * resources_[static_cast<size_t>(resource)].cost;
  }

 private:
  struct Resource {
    double cost = 0;
    double work = 0;  // done
    std::vector<int32_t> users;
    bool is_dirty = false;
  };
  struct Pipe {
    double own_cost = 0;
    Resources resources = kNoResources;
    std::array<int32_t, kMaxResources> place = {};  // among the users of each
    FifoPool<double>::Fifo jobs;                    // the first one runs
    double left = 0;                                // of its work
    double cost = 0;                                // of a unit, as shared now
    Picoseconds since = 0;                          // when `left` was true
    int64_t version = 0;                            // of its end
    bool is_new = false;                            // has no end yet
  };
  struct End {
    Picoseconds time;
    int32_t pipe;
    int64_t version;
    bool operator>(const End& other) const {
      return time != other.time ? time > other.time : pipe > other.pipe;
    }
  };

  Pipe& pipe(int32_t id) { return pipes_[static_cast<size_t>(id)]; }
  Resource& resource(int32_t id) { return resources_[static_cast<size_t>(id)]; }
  void begin(int32_t id);
  void leave(int32_t id);
  void touch(int32_t resource_id);
  void price(int32_t id, Picoseconds now);

  std::vector<Resource> resources_;
  std::vector<Pipe> pipes_;
  FifoPool<double> jobs_;
  std::vector<int32_t> dirty_;  // resources
  int64_t sharings_ = 0;
  std::vector<int32_t> unbound_;  // new pipes that draw on no resource
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace horing
