#include "schedule/rails.h"

#include <algorithm>
#include <cmath>

#include "base/quotient.h"

namespace horing {

namespace {

size_t atMost(size_t count, double part, size_t alignment) {
  return std::min(count, static_cast<size_t>(std::ceil(static_cast<double>(count) * part)) + alignment);
}

}  // namespace

Rails::Rails(std::vector<int32_t> group_sizes) {
  auto cut = std::make_shared<Cut>();
  cut->sizes = std::move(group_sizes);
  cut->first = {0};
  for (const int32_t size : cut->sizes) cut->first.push_back(cut->first.back() + size);
  std::vector<int32_t> different = cut->sizes;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  for (const int32_t size : different)
    for (int32_t k = 0; k <= size; ++k) cut->at.push_back({k, size});
  std::sort(cut->at.begin(), cut->at.end());
  cut->at.erase(std::unique(cut->at.begin(), cut->at.end()), cut->at.end());
  cut->largest = different.back();
  cut->widest = 0;
  for (size_t p = 0; p + 1 < cut->at.size(); ++p) {
    const auto value = [&](size_t i) {
      return static_cast<double>(cut->at[i].numerator) / static_cast<double>(cut->at[i].denominator);
    };
    cut->widest = std::max(cut->widest, value(p + 1) - value(p));
  }
  cut->turns = turnsOf(*cut);
  cut_ = std::move(cut);
}

// Over the distinct sizes only, which are few.
int32_t Rails::turnsOf(const Cut& cut) {
  std::vector<int32_t> sizes = cut.sizes;
  std::sort(sizes.begin(), sizes.end());
  int32_t longest = 1;
  for (size_t a = 0; a < sizes.size();
       a = static_cast<size_t>(std::upper_bound(sizes.begin(), sizes.end(), sizes[a]) - sizes.begin())) {
    const bool has_another = a + 1 < sizes.size() && sizes[a + 1] == sizes[a];
    for (size_t b = a; b < sizes.size();
         b = static_cast<size_t>(std::upper_bound(sizes.begin(), sizes.end(), sizes[b]) - sizes.begin())) {
      if (a == b && !has_another) continue;
      const auto bearers = [&](size_t piece) {
        const Fraction& at = cut.at[piece];
        return std::pair(at.numerator * sizes[a] / at.denominator, at.numerator * sizes[b] / at.denominator);
      };
      int32_t run = 1;
      for (size_t piece = 1; piece + 1 < cut.at.size(); ++piece) {
        run = bearers(piece) == bearers(piece - 1) ? run + 1 : 1;
        longest = std::max(longest, run);
      }
    }
  }
  return longest;
}

int32_t Rails::groupOf(int32_t position) const {
  const auto& first = cut_->first;
  return static_cast<int32_t>(std::upper_bound(first.begin(), first.end(), position) - first.begin()) - 1;
}

Rails::Range Rails::piecesOf(int32_t group, int32_t member) const {
  const auto pieceAt = [&](int32_t k) {
    const Fraction wanted{k, sizeOf(group)};
    return static_cast<int32_t>(std::lower_bound(cut_->at.begin(), cut_->at.end(), wanted) -
                                cut_->at.begin());
  };
  return {pieceAt(member), pieceAt(member + 1)};
}

Rails::Part Rails::partOfBlock(int32_t chunk, size_t block, size_t alignment) const {
  const int64_t size = sizeOf(chunk / pieces());
  const int32_t piece = chunk % pieces();
  const int64_t member = memberAt(static_cast<int32_t>(size), piece);
  const auto at = [&](const Fraction& cut) {
    return alignedShare(block, static_cast<size_t>(cut.numerator * size - member * cut.denominator),
                        static_cast<size_t>(cut.denominator), alignment);
  };
  return {at(begin(piece)), at(begin(piece + 1))};
}

Rails::Part Rails::partOfRow(int32_t chunk, size_t row, size_t alignment) const {
  const int32_t piece = chunk % pieces();
  const auto at = [&](const Fraction& cut) {
    return alignedShare(row, static_cast<size_t>(cut.numerator), static_cast<size_t>(cut.denominator),
                        alignment);
  };
  return {at(begin(piece)), at(begin(piece + 1))};
}

size_t Rails::largestPartOfBlock(size_t block, size_t alignment) const {
  return atMost(block, cut_->widest * cut_->largest, alignment);
}

size_t Rails::largestPartOfRow(size_t row, size_t alignment) const {
  return atMost(row, cut_->widest, alignment);
}

std::strong_ordering Rails::operator<=>(const Rails& other) const {
  const std::span<const int32_t> mine = sizes(), theirs = other.sizes();
  return std::lexicographical_compare_three_way(mine.begin(), mine.end(), theirs.begin(), theirs.end());
}

}  // namespace horing
