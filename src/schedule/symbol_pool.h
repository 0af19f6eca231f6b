#pragma once
// Storage of verifyValues: symbolic values and vector clocks, both reference-counted rows of one flat array.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace horing {

// Reference-counted rows of `width` elements of T. A row with count 0 is reused.
template <typename T>
class RowPool {
 public:
  explicit RowPool(size_t width) : width_(width) {}

  // A row of unspecified content, with count 1.
  int32_t allocate() {
    if (!free_.empty()) {
      const int32_t row = free_.back();
      free_.pop_back();
      holders_[static_cast<size_t>(row)] = 1;
      return row;
    }
    holders_.push_back(1);
    data_.resize(data_.size() + width_);
    return static_cast<int32_t>(holders_.size()) - 1;
  }
  int32_t hold(int32_t row) {
    ++holders_[static_cast<size_t>(row)];
    return row;
  }
  void release(int32_t row) {
    if (--holders_[static_cast<size_t>(row)] == 0) free_.push_back(row);
  }
  bool heldOnce(int32_t row) const { return holders_[static_cast<size_t>(row)] == 1; }
  // Valid until the next allocate().
  T* at(int32_t row) { return data_.data() + static_cast<size_t>(row) * width_; }
  size_t width() const { return width_; }

 private:
  size_t width_;
  std::vector<T> data_;
  std::vector<int32_t> holders_;
  std::vector<int32_t> free_;
};

// First-in-first-out queues whose entries share one array.
template <typename T>
class FifoPool {
 public:
  struct Fifo {
    int32_t head = -1;
    int32_t tail = -1;
    bool empty() const { return head == -1; }
  };

  void push(Fifo& fifo, const T& entry) {
    int32_t node = free_;
    if (node == -1) {
      node = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({entry, -1});
    } else {
      free_ = nodes_[static_cast<size_t>(node)].next;
      nodes_[static_cast<size_t>(node)] = {entry, -1};
    }
    if (fifo.empty()) {
      fifo.head = node;
    } else {
      nodes_[static_cast<size_t>(fifo.tail)].next = node;
    }
    fifo.tail = node;
  }
  const T& front(const Fifo& fifo) const { return nodes_[static_cast<size_t>(fifo.head)].entry; }
  T pop(Fifo& fifo) {
    Node& node = nodes_[static_cast<size_t>(fifo.head)];
    const T entry = node.entry;
    const int32_t next = node.next;
    node.next = free_;
    free_ = fifo.head;
    fifo.head = next;
    return entry;
  }

 private:
  struct Node {
    T entry;
    int32_t next;
  };
  std::vector<Node> nodes_;
  int32_t free_ = -1;
};

}  // namespace horing
