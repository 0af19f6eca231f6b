#include "layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace horing::topo {

namespace {

// Of the boxes in a box of a machine that would be too high: so many, then fewer by this part until all fits.
constexpr size_t kMostDrawn = 128, kShrinking = 8;

double rowsHeight(size_t rows, double gap) {
  return rows == 0 ? 0 : static_cast<double>(rows) * (kDeviceHeight + gap) - gap;
}

}  // namespace

Layout::Layout(const MachineGraph& graph, std::function<std::string(int32_t)> header, Size room)
    : graph_(graph), header_(std::move(header)) {
  for (const Looks& looks : {Looks{104, 2}, Looks{104, 1}, Looks{88, 1}}) {
    looks_ = looks;
    if (measure(0, std::numeric_limits<double>::max()).width <= room.width) break;
  }
  while (measure(0, room.width).height > room.height && most_ > 1)
    most_ = std::min(most_ - most_ / kShrinking - 1, kMostDrawn);
}

template <typename IsWanted>
std::vector<int32_t> Layout::first(int32_t node, const IsWanted& is_wanted) const {
  std::vector<int32_t> found;
  for (const int32_t child : graph_.childrenOf(node))
    if (found.size() < most_ && is_wanted(graph_.node(child).kind)) found.push_back(child);
  return found;
}

std::vector<int32_t> Layout::boxesIn(int32_t node) const {
  return first(node, [](NodeKind kind) {
    return kind != NodeKind::kGpu && kind != NodeKind::kNic && kind != NodeKind::kFabric;
  });
}

std::vector<int32_t> Layout::devicesIn(int32_t node, NodeKind kind) const {
  return first(node, [=](NodeKind other) { return other == kind; });
}

std::string Layout::header(int32_t node) const {
  const std::vector<int32_t> children = graph_.childrenOf(node);
  const auto all = std::ranges::count_if(
      children, [&](int32_t child) { return graph_.node(child).kind != NodeKind::kFabric; });
  const size_t drawn =
      boxesIn(node).size() + devicesIn(node, NodeKind::kGpu).size() + devicesIn(node, NodeKind::kNic).size();
  return drawn == static_cast<size_t>(all) ? header_(node)
                                           : header_(node) + formatString(", %zu of %td drawn", drawn, all);
}

size_t Layout::columns(int32_t node, double room) const {
  const size_t nics = devicesIn(node, NodeKind::kNic).size(), gpus = devicesIn(node, NodeKind::kGpu).size();
  const double fit = std::clamp((room + kGap) / (looks_.device_width + kGap), 1.0, 1e4);
  return std::min(std::max(gpus, std::min(nics, looks_.nic_columns)), static_cast<size_t>(fit));
}

// NICs above, GPUs in the lowest rows.
Size Layout::devicesSize(int32_t node, double room) const {
  const size_t nics = devicesIn(node, NodeKind::kNic).size(), gpus = devicesIn(node, NodeKind::kGpu).size();
  if (nics + gpus == 0) return {};
  const size_t across = columns(node, room);
  const double height =
      rowsHeight((gpus + across - 1) / across, kRingGap) + rowsHeight((nics + across - 1) / across, kGap);
  return {static_cast<double>(across) * (looks_.device_width + kGap) - kGap,
          height + (nics > 0 && gpus > 0 ? kGap : 0)};
}

Size Layout::rowSize(const Row& row) {
  Size size;
  for (const Block& block : row) {
    size.width += block.size.width + (size.width > 0 ? kGap : 0);
    size.height = std::max(size.height, block.size.height);
  }
  return size;
}

// As few as fit, of about as many blocks each.
std::vector<Layout::Row> Layout::rowsOf(Row blocks, double room) const {
  for (size_t count = 1;; ++count) {
    const size_t in_each = (blocks.size() + count - 1) / count;
    std::vector<Row> rows;
    for (size_t first = 0; first < blocks.size(); first += in_each)
      rows.emplace_back(blocks.begin() + static_cast<long>(first),
                        blocks.begin() + static_cast<long>(std::min(first + in_each, blocks.size())));
    const bool fits = std::ranges::all_of(rows, [&](const Row& row) { return rowSize(row).width <= room; });
    if (fits || in_each <= 1) return rows;
  }
}

Size Layout::measure(int32_t node, double room) {
  const double inside = room - 2 * kPad;
  Row blocks;
  for (const int32_t box : boxesIn(node)) blocks.push_back({box, measure(box, inside)});
  if (const Size devices = devicesSize(node, inside); devices.width > 0) blocks.push_back({-1, devices});
  rows_[node] = rowsOf(blocks, inside);
  Size inner;
  for (const Row& row : rows_[node]) {
    const Size size = rowSize(row);
    inner.width = std::max(inner.width, size.width);
    inner.height += size.height + (inner.height > 0 ? kRingGap : 0);
  }
  const double shortest = std::min(240.0, static_cast<double>(header(node).size()) * kLetter);
  return sizes_[node] = {std::max(inner.width, shortest) + 2 * kPad, inner.height + kHeader + 2 * kPad};
}

void Layout::put(int32_t node, const Place& at) {
  places_[node] = at;
  double top = at.y + kHeader + kPad;
  for (const Row& row : rows_[node]) {
    const Size size = rowSize(row);
    double x = at.x + (at.size.width - size.width) / 2;
    // What is lower than its row stands on the floor.
    const double floor = top + size.height;
    for (const Block& block : row) {
      if (block.box < 0)
        putDevices(node, x, floor, block.size.width);
      else
        put(block.box, {x, floor - block.size.height, block.size});
      x += block.size.width + kGap;
    }
    top = floor + kRingGap;
  }
}

void Layout::putDevices(int32_t node, double x, double floor, double room) {
  const size_t across = columns(node, room);
  for (const NodeKind kind : {NodeKind::kGpu, NodeKind::kNic}) {
    const double gap = kind == NodeKind::kGpu ? kRingGap : kGap;
    const std::vector<int32_t> devices = devicesIn(node, kind);
    const double top = floor - rowsHeight((devices.size() + across - 1) / across, gap);
    for (size_t i = 0; i < devices.size(); ++i)
      places_[devices[i]] = {x + static_cast<double>(i % across) * (looks_.device_width + kGap),
                             top + static_cast<double>(i / across) * (kDeviceHeight + gap),
                             {looks_.device_width, kDeviceHeight}};
    if (!devices.empty()) floor = top - kGap;
  }
}

}  // namespace horing::topo
