#pragma once
// The positions of the boxes in a machine's picture: nested, GPUs lowest, NICs above them. Boxes that do not fit on a screen side by side
// are in several rows, and if the rows do not fit either, each box shows only its first children. Lengths are pixels.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "topology/machine_graph.h"

namespace horing::topo {

struct Size {
  double width = 0;
  double height = 0;
};

struct Place {
  double x = 0;
  double y = 0;
  Size size;

  double middle() const { return x + size.width / 2; }
  double floor() const { return y + size.height; }
};

inline constexpr double kPad = 9, kHeader = 21, kGap = 8, kDeviceHeight = 60;
inline constexpr double kLetter = 6.1;  // a wide guess of a letter's width, so that no text leaves its box
// Below a row of members that is not the last one: room for the ring.
inline constexpr double kRingGap = 56;

class Layout {
 public:
  // `header` is the text at the top of a box. No larger than `room` where that can be.
  Layout(const MachineGraph& graph, std::function<std::string(int32_t)> header, Size room);

  // Puts the machine there; before, nothing has a place.
  void place(double x, double y) { put(0, {x, y, sizes_[0]}); }
  Size size() const { return sizes_.at(0); }
  const Place& at(int32_t node) const { return places_.at(node); }
  bool isDrawn(int32_t node) const { return places_.contains(node); }
  // With the number of what is left out.
  std::string header(int32_t node) const;

 private:
  // How devices look, from wide to narrow.
  struct Looks {
    double device_width;
    size_t nic_columns;  // beside each other in a box that has fewer GPUs
  };
  // What stands in a row: a box, or all devices of the box around it.
  struct Block {
    int32_t box;  // -1: the devices
    Size size;
  };
  using Row = std::vector<Block>;

  template <typename IsWanted>
  std::vector<int32_t> first(int32_t node, const IsWanted& is_wanted) const;
  std::vector<int32_t> boxesIn(int32_t node) const;
  std::vector<int32_t> devicesIn(int32_t node, NodeKind kind) const;
  size_t columns(int32_t node, double room) const;
  Size devicesSize(int32_t node, double room) const;
  static Size rowSize(const Row& row);
  std::vector<Row> rowsOf(Row blocks, double room) const;
  Size measure(int32_t node, double room);
  void put(int32_t node, const Place& at);
  void putDevices(int32_t node, double x, double floor, double room);

  const MachineGraph& graph_;
  std::function<std::string(int32_t)> header_;
  Looks looks_{};
  size_t most_ = SIZE_MAX;  // of the boxes in a box, of its GPUs and of its NICs
  std::map<int32_t, Size> sizes_;
  std::map<int32_t, std::vector<Row>> rows_;
  std::map<int32_t, Place> places_;
};

}  // namespace horing::topo
