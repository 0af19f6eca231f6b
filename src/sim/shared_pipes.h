#pragma once
// Work that shares resources over time: messages on lines, and computation on cores.
//
// A *pipe* serves its jobs in order: a connection its messages, a rank its computation. A busy pipe uses *resources* (a NIC's two
// directions, the cores of a node), each of which is shared equally by the pipes that use it at that time. A pipe runs at its smallest
// share; the excess of its other shares stays unused.
//
// A *fair* resource (the receiving side of a NIC) gives what a pipe cannot use, since another resource holds it up, to the others in equal
// parts: max-min fairness, as TCP connections share a line.
//
// An *ordered* resource (the sending side of a NIC) serves jobs in the order of their pushes: the next one begins once the running ones leave
// a part of the resource unused, because one has ended or another resource slows them down.
//
// A *burst* is work that a rested resource does in no time; while nobody uses the resource, it recovers at the resource's rate. A job takes
// what is left of it when it begins.
#include <array>
#include <cstdint>
#include <vector>

#include "schedule/symbol_pool.h"
#include "sim/end_queue.h"
#include "sim/machine_model.h"

namespace horing {

class SharedPipes {
 public:
  static constexpr Picoseconds kNever = INT64_MAX;
  static constexpr size_t kMaxResources = 3;  // of one pipe
  using Resources = std::array<int32_t, kMaxResources>;
  static constexpr Resources kNoResources = {-1, -1, -1};

  // `cost`: picoseconds per unit of work, for a single pipe. Numbered from 0.
  int32_t addResource(double cost);
  // An ordered one: only the first resource of a pipe may be that.
  int32_t addOrdered(double cost);
  // A fair one: only the second resource of a pipe may be that.
  int32_t addFair(double cost);
  // Of a resource that no pipe has used yet. Default: 0.
  void setBurst(int32_t resource, double work);
  // `own_cost`: the same for the pipe itself, independent of sharing. Numbered from 0. -1: no resource.
  int32_t addPipe(double own_cost, const Resources& resources);

  // Appends a job to the pipe's queue.
  void push(int32_t pipe, double work);

  // Call after all pushes of a time: recomputes all shares from `now` on.
  void settle(Picoseconds now);
  // When the next job is done; kNever if none runs. After settle().
  Picoseconds nextEnd() const { return ends_.empty() ? kNever : ends_.time(); }
  // A pipe whose job ends at `now`, which then begins its next job; -1: no more.
  int32_t popEnded(Picoseconds now);

  // The number of shares computed, which dominates the run time: each change recomputes all users of a resource.
  int64_t sharings() const { return sharings_; }
  size_t resources() const { return resources_.size(); }
  // Busy picoseconds of the resource, as if pipes used it one at a time.
  double busy(int32_t resource) const {
    return resources_[static_cast<size_t>(resource)].work * resources_[static_cast<size_t>(resource)].cost;
  }

 private:
  struct User {
    int32_t pipe = -1;
    // Of a fair resource, so that shares are worked out without a look at each pipe.
    double elsewhere = 0;  // costElsewhere()
    double rate = 0;       // 1 / elsewhere
    double cost = -1;      // of the pipe; -1: it has no end yet
  };
  struct Resource {
    double cost = 0;
    double work = 0;  // done
    double burst = 0;
    double burst_left = 0;
    Picoseconds idle_since = kNever;  // kNever: it is in use
    std::vector<User> users;
    bool is_dirty = false;
    bool is_ordered = false;
    bool is_fair = false;
    double share_cost = 0;            // if it is fair: per unit, of a user that nothing else holds up
    bool is_changed = false;          // what waits for it, or what its users get of it
    FifoPool<int32_t>::Fifo waiting;  // pipes, in order
  };
  struct Pipe {
    double own_cost = 0;
    Resources resources = kNoResources;
    std::array<int32_t, kMaxResources> place = {};  // index among the users of each resource
    FifoPool<double>::Fifo jobs;                    // the first job runs
    double work = 0;                                // of the first job, without what a burst did
    double left = 0;                                // remaining work of the first job
    double cost = 0;                                // per unit, at the current share
    Picoseconds since = 0;                          // the time of `left`
    bool is_new = false;                            // has no end yet
  };
  Pipe& pipe(int32_t id) { return pipes_[static_cast<size_t>(id)]; }
  Resource& resource(int32_t id) { return resources_[static_cast<size_t>(id)]; }
  void await(int32_t id);
  void begin(int32_t id);
  void leave(int32_t id, Picoseconds now);
  double takeBurst(const Pipe& user, Picoseconds now);
  static double burstOf(Resource& shared, Picoseconds now);
  void touch(int32_t resource_id);
  void priceAll(Picoseconds now);
  void noteCostsElsewhere(int32_t resource_id);
  void priceUsers(const Resource& shared, Picoseconds now);
  static double shareCost(const Resource& shared);
  double costElsewhere(int32_t id);
  // The fair resource of the pipe; -1: it has none.
  int32_t fairOf(int32_t id);
  User& fairUser(int32_t id) { return resource(fairOf(id)).users[static_cast<size_t>(pipe(id).place[1])]; }
  void price(int32_t id, Picoseconds now);
  // The ordered resource of the pipe; -1: it has none.
  int32_t orderedOf(int32_t id);
  void noteChange(int32_t id);
  bool beginNext();
  bool isUsedUp(const Resource& ordered);

  std::vector<Resource> resources_;
  std::vector<Pipe> pipes_;
  FifoPool<double> jobs_;
  FifoPool<int32_t> waiting_;
  std::vector<int32_t> dirty_;    // resources
  std::vector<int32_t> changed_;  // ordered resources
  int64_t sharings_ = 0;
  std::vector<int32_t> unbound_;  // new pipes without a resource
  EndQueue ends_;                 // of first jobs, by pipe
};

}  // namespace horing
