#pragma once
// The ends of running jobs, by time and then by number: a binary heap with one entry for each job, whose time can change.
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/machine_model.h"

namespace horing {

class EndQueue {
 public:
  bool empty() const { return heap_.empty(); }
  // Not if empty.
  Picoseconds time() const { return heap_.front().time; }
  int32_t job() const { return heap_.front().job; }

  // Adds the job, or changes its time. Jobs are numbered from 0.
  void set(int32_t job, Picoseconds time) {
    if (static_cast<size_t>(job) >= place_.size()) place_.resize(static_cast<size_t>(job) + 1, kNone);
    if (place(job) == kNone) {
      heap_.push_back({time, job});
      rise(heap_.size() - 1, {time, job});
      return;
    }
    const size_t at = place(job);
    if (Entry{time, job} < heap_[at])
      rise(at, {time, job});
    else
      sink(at, {time, job});
  }

  // Removes job().
  void pop() {
    place(job()) = kNone;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(0, last);
  }

 private:
  struct Entry {
    Picoseconds time;
    int32_t job;
    bool operator<(const Entry& other) const {
      return time != other.time ? time < other.time : job < other.job;
    }
  };
  static constexpr size_t kNone = SIZE_MAX;

  size_t& place(int32_t job) { return place_[static_cast<size_t>(job)]; }
  void put(size_t at, const Entry& entry) {
    heap_[at] = entry;
    place(entry.job) = at;
  }
  void rise(size_t at, const Entry& entry) {
    for (; at > 0 && entry < heap_[(at - 1) / 2]; at = (at - 1) / 2) put(at, heap_[(at - 1) / 2]);
    put(at, entry);
  }
  void sink(size_t at, const Entry& entry) {
    for (size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < entry)) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, entry);
  }

  std::vector<Entry> heap_;
  std::vector<size_t> place_;  // by job
};

}  // namespace horing
