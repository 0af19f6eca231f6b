#include "perf/traffic.h"

#include <cmath>
#include <fstream>
#include <sstream>

namespace horing::perf {

namespace {

constexpr double kLargest = 1e15;  // bytes of one block

uint64_t inWholeUnits(double bytes) {
  return static_cast<uint64_t>(bytes) / 16 * 16;
}

Result<std::vector<uint64_t>> numbersOf(const std::string& line, double scale) {
  std::vector<uint64_t> numbers;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    char* end = nullptr;
    const double bytes = std::strtod(word.c_str(), &end) * scale;
    if (*end != '\0' || !(bytes >= 0 && bytes <= kLargest))
      return makeStatus(Code::kInvalidUsage, "'%s' is not a number of bytes", word.c_str());
    numbers.push_back(inWholeUnits(bytes));
  }
  return numbers;
}

}  // namespace

Result<Traffic> Traffic::fromFile(const std::string& name, double scale) {
  Traffic traffic;
  std::ifstream file(name);
  size_t columns = 0;
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    const Result<std::vector<uint64_t>> row = numbersOf(line, scale);
    if (!row.ok())
      return makeStatus(Code::kInvalidUsage, "%s: %s", name.c_str(), row.status().message().c_str());
    if (row.value().empty()) continue;
    if (rows == 0) columns = row.value().size();
    if (row.value().size() != columns || columns > kMaxRanks)
      return makeStatus(Code::kInvalidUsage, "%s: row %d has %zu numbers: expected %s", name.c_str(), rows,
                        row.value().size(), columns > kMaxRanks ? "at most 4096" : "as many as in row 0");
    traffic.matrix_.insert(traffic.matrix_.end(), row.value().begin(), row.value().end());
    ++rows;
  }
  if (rows == 0 || static_cast<size_t>(rows) != columns)
    return makeStatus(Code::kInvalidUsage, "%s: expected a square matrix of bytes, found %d rows of %zu",
                      name.c_str(), rows, columns);
  traffic.matrix_ranks_ = rows;
  return traffic;
}

uint64_t Traffic::bytes(int from, int to, int ranks, uint64_t total) const {
  if (fromFile())
    return matrix_[static_cast<size_t>(from) * static_cast<size_t>(matrix_ranks_) + static_cast<size_t>(to)];
  const auto all = static_cast<double>(total);
  if (ranks == 1) return inWholeUnits(all);
  const int distance = (to - from + ranks) % ranks;
  const double weighted = all * distance * 2 / (static_cast<double>(ranks) * (ranks - 1));
  return inWholeUnits((1 - spread_) * all / ranks + spread_ * weighted);
}

}  // namespace horing::perf
