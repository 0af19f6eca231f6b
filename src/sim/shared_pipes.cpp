#include "sim/shared_pipes.h"

#include <algorithm>
#include <cmath>

namespace horing {

int32_t SharedPipes::addResource(double cost) {
  resources_.emplace_back().cost = cost;
  return static_cast<int32_t>(resources_.size()) - 1;
}

int32_t SharedPipes::addOrdered(double cost) {
  const int32_t id = addResource(cost);
  resource(id).is_ordered = true;
  return id;
}

int32_t SharedPipes::addFair(double cost) {
  const int32_t id = addResource(cost);
  resource(id).is_fair = true;
  return id;
}

void SharedPipes::setBurst(int32_t id, double work) {
  resource(id).burst = resource(id).burst_left = work;
}

int32_t SharedPipes::addPipe(double own_cost, const Resources& resources) {
  Pipe& added = pipes_.emplace_back();
  added.own_cost = own_cost;
  added.resources = resources;
  return static_cast<int32_t>(pipes_.size()) - 1;
}

void SharedPipes::push(int32_t id, double work) {
  const bool was_idle = pipe(id).jobs.empty();
  jobs_.push(pipe(id).jobs, work);
  if (was_idle) await(id);
}

// Begins the pipe's first job, or lets it wait for its turn.
void SharedPipes::await(int32_t id) {
  const int32_t ordered = orderedOf(id);
  if (ordered < 0) return begin(id);
  waiting_.push(resource(ordered).waiting, id);
  noteChange(id);
}

void SharedPipes::begin(int32_t id) {
  Pipe& own = pipe(id);
  own.work = own.left = jobs_.front(own.jobs);
  own.is_new = true;
  bool is_bound = false;
  for (size_t i = 0; i < kMaxResources; ++i) {
    if (own.resources[i] < 0) continue;
    is_bound = true;
    Resource& shared = resource(own.resources[i]);
    own.place[i] = static_cast<int32_t>(shared.users.size());
    shared.users.push_back({id, own.own_cost, own.own_cost > 0 ? 1 / own.own_cost : 0});
    touch(own.resources[i]);
  }
  if (!is_bound) unbound_.push_back(id);
}

// The last user takes its place in the list.
void SharedPipes::leave(int32_t id, Picoseconds now) {
  Pipe& own = pipe(id);
  for (size_t i = 0; i < kMaxResources; ++i) {
    if (own.resources[i] < 0) continue;
    Resource& shared = resource(own.resources[i]);
    shared.work += own.work;
    const User last = shared.users.back();
    shared.users[static_cast<size_t>(own.place[i])] = last;
    Pipe& moved = pipe(last.pipe);
    for (size_t k = 0; k < kMaxResources; ++k)
      if (moved.resources[k] == own.resources[i]) moved.place[k] = own.place[i];
    shared.users.pop_back();
    if (shared.users.empty()) shared.idle_since = now;
    touch(own.resources[i]);
  }
}

void SharedPipes::touch(int32_t resource_id) {
  Resource& shared = resource(resource_id);
  if (shared.is_dirty) return;
  shared.is_dirty = true;
  dirty_.push_back(resource_id);
}

void SharedPipes::settle(Picoseconds now) {
  do {
    priceAll(now);
  } while (beginNext());
}

void SharedPipes::priceAll(Picoseconds now) {
  for (size_t i = 0; i < dirty_.size(); ++i) noteCostsElsewhere(dirty_[i]);
  for (const int32_t id : dirty_) {
    resource(id).is_dirty = false;
    if (resource(id).is_fair) resource(id).share_cost = shareCost(resource(id));
  }
  for (const int32_t id : dirty_) priceUsers(resource(id), now);
  dirty_.clear();
  for (const int32_t id : unbound_) price(id, now);
  unbound_.clear();
}

// A fair resource's shares change with what its users can take elsewhere, if that holds them up, or did.
void SharedPipes::noteCostsElsewhere(int32_t id) {
  if (resource(id).is_fair) return;
  for (const User& user : resource(id).users) {
    const int32_t fair = fairOf(user.pipe);
    if (fair < 0) continue;
    User& there = fairUser(user.pipe);
    there.elsewhere = costElsewhere(user.pipe);
    there.rate = 1 / there.elsewhere;
    const double share_cost = resource(fair).share_cost;
    if (pipe(user.pipe).cost > share_cost || there.elsewhere > share_cost) touch(fair);
  }
}

// Most users of a fair resource are held up elsewhere, and keep their shares.
void SharedPipes::priceUsers(const Resource& shared, Picoseconds now) {
  for (const User& user : shared.users)
    if (shared.is_fair && std::max(user.elsewhere, shared.share_cost) == user.cost)
      ++sharings_;
    else
      price(user.pipe, now);
}

// Of a fair resource: for users that are not held up elsewhere. The fewer share what the others leave, the more of them are held up.
double SharedPipes::shareCost(const Resource& shared) {
  const size_t users = shared.users.size();
  double cost = shared.cost * static_cast<double>(std::max<size_t>(users, 1));
  for (size_t before = 0;;) {
    size_t held = 0;
    double left = 1 / shared.cost;
    for (const User& user : shared.users) {  // without a branch, which would be taken in no order
      const bool is_held = user.elsewhere > cost;
      held += is_held;
      left -= is_held ? user.rate : 0;
    }
    if (held <= before || held == users) return cost;
    cost = static_cast<double>(users - held) / left;
    before = held;
  }
}

// Per unit, by all that the pipe uses but for its fair resource.
double SharedPipes::costElsewhere(int32_t id) {
  const Pipe& own = pipe(id);
  double cost = own.own_cost;
  for (const int32_t used : own.resources)
    if (used >= 0 && !resource(used).is_fair)
      cost = std::max(cost, resource(used).cost * static_cast<double>(resource(used).users.size()));
  return cost;
}

int32_t SharedPipes::fairOf(int32_t id) {
  const int32_t second = pipe(id).resources[1];
  return second >= 0 && resource(second).is_fair ? second : -1;
}

int32_t SharedPipes::orderedOf(int32_t id) {
  const int32_t first = pipe(id).resources[0];
  return first >= 0 && resource(first).is_ordered ? first : -1;
}

void SharedPipes::noteChange(int32_t id) {
  const int32_t ordered = orderedOf(id);
  if (ordered < 0 || resource(ordered).is_changed) return;
  resource(ordered).is_changed = true;
  changed_.push_back(ordered);
}

// Begins the next job on each ordered resource that is not used up; one on each, since it changes the shares of others.
bool SharedPipes::beginNext() {
  std::vector<int32_t> next;
  for (const int32_t id : changed_) {
    Resource& ordered = resource(id);
    ordered.is_changed = false;
    if (ordered.waiting.empty() || isUsedUp(ordered)) continue;
    next.push_back(waiting_.pop(ordered.waiting));
  }
  changed_.clear();
  for (const int32_t id : next) begin(id);
  return !next.empty();
}

bool SharedPipes::isUsedUp(const Resource& ordered) {
  constexpr double kAll = 1 - 1e-9;  // but for rounding errors
  double used = 0;
  for (const User& user : ordered.users) used += ordered.cost / pipe(user.pipe).cost;
  return used >= kAll;
}

// The part of the first job that all resources of its pipe do at once.
double SharedPipes::takeBurst(const Pipe& user, Picoseconds now) {
  double taken = user.own_cost > 0 ? 0 : user.left;
  for (const int32_t id : user.resources)
    if (id >= 0) taken = std::min(taken, burstOf(resource(id), now));
  if (taken <= 0) return 0;
  for (const int32_t id : user.resources)
    if (id >= 0) resource(id).burst_left -= taken;
  return taken;
}

// What is left of it for a job that begins now.
double SharedPipes::burstOf(Resource& shared, Picoseconds now) {
  if (shared.burst == 0) return 0;
  if (shared.idle_since != kNever) {
    const double recovered = static_cast<double>(now - shared.idle_since) / shared.cost;
    shared.burst_left = std::min(shared.burst, shared.burst_left + recovered);
    shared.idle_since = kNever;
  }
  return shared.burst_left;
}

// An unchanged end time is not recomputed, so that nothing is rounded twice.
void SharedPipes::price(int32_t id, Picoseconds now) {
  ++sharings_;
  Pipe& own = pipe(id);
  const int32_t fair = fairOf(id);
  const double cost =
      fair < 0 ? costElsewhere(id) : std::max(fairUser(id).elsewhere, resource(fair).share_cost);
  if (!own.is_new && cost == own.cost) return;
  if (!own.is_new && own.cost > 0) {
    const double done = static_cast<double>(now - own.since) / own.cost;
    own.left = std::max(0.0, own.left - done);
  }
  if (own.is_new) own.work = own.left -= takeBurst(own, now);
  own.is_new = false;
  own.cost = cost;
  if (fair >= 0) fairUser(id).cost = cost;
  own.since = now;
  // Rounds up, except for rounding errors of a sum of fractions.
  const auto takes = static_cast<Picoseconds>(std::ceil(own.left * cost - 1e-3));
  ends_.set(id, now + std::max<Picoseconds>(takes, 0));
  noteChange(id);
}

int32_t SharedPipes::popEnded(Picoseconds now) {
  if (nextEnd() > now) return -1;
  const int32_t id = ends_.job();
  ends_.pop();
  Pipe& own = pipe(id);
  leave(id, now);
  noteChange(id);
  jobs_.pop(own.jobs);
  if (!own.jobs.empty()) await(id);
  return id;
}

}  // namespace horing
