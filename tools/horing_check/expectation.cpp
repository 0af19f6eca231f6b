#include "horing_check/expectation.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/number.h"

namespace horing::check {

namespace {

// So that no relation of two is 0 or infinite.
constexpr double kLeastExpected = 1e-6, kMostExpected = 1e12;

// At commas outside of brackets, and at white space.
std::vector<std::string> entriesOf(const std::string& text) {
  std::vector<std::string> entries(1);
  bool inside = false;
  for (const char letter : text) {
    inside = letter == '[' || (inside && letter != ']');
    if (std::isspace(static_cast<unsigned char>(letter)) || (letter == ',' && !inside))
      entries.emplace_back();
    else
      entries.back() += letter;
  }
  std::erase(entries, "");
  return entries;
}

}  // namespace

Result<Expectation::Numbers> Expectation::parseNumbers(const std::string& text) {
  const size_t dash = std::min(text.find('-'), text.size());
  const std::string first = text.substr(0, dash), last = dash < text.size() ? text.substr(dash + 1) : first;
  const std::optional<int> from = numberOf<int>(first), to = numberOf<int>(last);
  if (!from || !to || *from < 0 || *to < *from)
    return makeStatus(Code::kInvalidArgument, "'%s' is not a range of numbers such as 0-3", text.c_str());
  return Numbers{*from, *to, first.size() > 1 && first[0] == '0' ? first.size() : 0};
}

Result<Expectation::Kind> Expectation::parseKind(const std::string& entry) {
  const size_t equals = std::min(entry.find('='), entry.size());
  const std::string name = entry.substr(0, equals);
  const std::optional<double> rate =
      equals < entry.size() ? numberOf<double>(entry.substr(equals + 1)) : std::nullopt;
  if (name.empty() || !rate || !(*rate >= kLeastExpected && *rate <= kMostExpected))
    return makeStatus(Code::kInvalidArgument,
                      "'%s' does not say what is expected of which nodes: write node[0-3]=400",
                      entry.c_str());
  const size_t open = name.find('['), close = name.find(']');
  if (open == std::string::npos && close == std::string::npos) return Kind{name, "", {}, *rate};
  if (close == std::string::npos || open == std::string::npos || close < open ||
      name.find_first_of("[]", close + 1) != std::string::npos || name.find('[', open + 1) < close)
    return makeStatus(Code::kInvalidArgument, "'%s' needs one pair of brackets: node[0-3]=400",
                      entry.c_str());
  Kind kind{name.substr(0, open), name.substr(close + 1), {}, *rate};
  std::istringstream ranges(name.substr(open + 1, close - open - 1) + ",");
  for (std::string range; std::getline(ranges, range, ',');) {
    HORING_ASSIGN(const Numbers numbers, parseNumbers(range));
    kind.numbers.push_back(numbers);
  }
  return kind;
}

Result<Expectation> Expectation::parse(const std::string& text) {
  Expectation all;
  for (const std::string& entry : entriesOf(text)) {
    HORING_ASSIGN(const Kind kind, parseKind(entry));
    all.kinds_.push_back(kind);
  }
  if (all.kinds_.empty())
    return makeStatus(Code::kInvalidArgument, "the text names no nodes: write node[0-3]=400");
  return all;
}

bool Expectation::Kind::holds(const std::string& host) const {
  if (numbers.empty()) return host == prefix;
  if (host.size() <= prefix.size() + suffix.size() || !host.starts_with(prefix) || !host.ends_with(suffix))
    return false;
  const std::string digits = host.substr(prefix.size(), host.size() - prefix.size() - suffix.size());
  const bool padded = digits.size() > 1 && digits[0] == '0';
  const std::optional<int> number = numberOf<int>(digits);
  return number && std::ranges::any_of(numbers, [&](const Numbers& one) {
           const bool fits = one.width > 0 ? digits.size() == one.width : !padded;
           return fits && *number >= one.first && *number <= one.last;
         });
}

Result<std::vector<double>> Expectation::sharesOf(const std::vector<std::string>& names) const {
  std::vector<double> rates;
  if (kinds_.empty()) return rates;
  for (const std::string& name : names) {
    const std::string host = name.substr(0, name.find('/'));
    const auto holds = [&](const Kind& kind) { return kind.holds(host); };
    const auto found = std::ranges::find_if(kinds_, holds);
    if (found == kinds_.end())
      return makeStatus(Code::kInvalidUsage, "--expect has no rate for %s: add %s=RATE", host.c_str(),
                        host.c_str());
    if (std::any_of(found + 1, kinds_.end(), holds))
      return makeStatus(Code::kInvalidUsage, "--expect has two rates for %s: leave one out", host.c_str());
    rates.push_back(found->rate);
  }
  const double fastest = *std::ranges::max_element(rates);
  for (double& rate : rates) rate /= fastest;
  return rates;
}

}  // namespace horing::check
