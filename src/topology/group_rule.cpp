#include "topology/group_rule.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <vector>

#include "base/printable.h"

namespace horing {

namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr size_t kMaxLabelBytes = 160;
constexpr size_t kMostLevels = 16;  // of switches

std::string_view shortName(std::string_view host) {
  return host.substr(0, host.find('.'));
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& letter : small)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return small;
}

// The part of `text` before `end`, which moves past it. A comma inside brackets does not end the part.
std::string_view takeItem(std::string_view& text) {
  int depth = 0;
  size_t at = 0;
  for (; at < text.size() && (depth > 0 || text[at] != ','); ++at)
    depth += (text[at] == '[') - (text[at] == ']');
  const std::string_view item = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return item;
}

bool readNumber(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

// A limit of the bytes of ranges that are read for one host, repeatedly if the host has many digits: a second or two.
constexpr size_t kMostRangeBytes = size_t{64} << 20;
// Slurm has fewer; each may end at any digit of the host, so the time is exponential in this number.
constexpr std::ptrdiff_t kMostBrackets = 4;

class HostFinder {
 public:
  explicit HostFinder(std::string_view host) : host_(host) {}

  bool isIn(std::string_view list) {
    while (!list.empty()) {
      const std::string_view item = takeItem(list);
      if (std::count(item.begin(), item.end(), '[') <= kMostBrackets && itemNames(item, host_)) return true;
    }
    return false;
  }
  bool gaveUp() const { return gave_up_; }

 private:
  bool rangesHold(std::string_view ranges, std::string_view digits);
  bool itemNames(std::string_view item, std::string_view host);

  std::string_view host_;
  size_t bytes_left_ = kMostRangeBytes;
  bool gave_up_ = false;
};

// Whether a host's digits are in "01-16,20". Leading zeros are significant: n1 is not n01.
bool HostFinder::rangesHold(std::string_view ranges, std::string_view digits) {
  uint64_t value = 0;
  if (!readNumber(digits, value)) return false;
  gave_up_ = gave_up_ || ranges.size() > bytes_left_;
  if (gave_up_) return false;
  bytes_left_ -= ranges.size();
  while (!ranges.empty()) {
    const size_t comma = std::min(ranges.find(','), ranges.size());
    const std::string_view range = ranges.substr(0, comma);
    ranges.remove_prefix(std::min(comma + 1, ranges.size()));
    const size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    uint64_t first = 0;
    uint64_t last = 0;
    if (!readNumber(low, first) || !readNumber(high, last)) continue;
    const bool padded = low.size() > 1 && low[0] == '0';
    const bool same_form = padded ? digits.size() == low.size() : digits[0] != '0' || digits.size() == 1;
    if (same_form && first <= value && value <= last) return true;
  }
  return false;
}

bool HostFinder::itemNames(std::string_view item, std::string_view host) {
  while (!item.empty() && item[0] != '[') {
    if (host.empty() || host[0] != item[0]) return false;
    item.remove_prefix(1);
    host.remove_prefix(1);
  }
  if (item.empty()) return host.empty();
  const size_t close = item.find(']');
  if (close == std::string_view::npos) return false;
  for (size_t digits = 1; digits <= host.size() && host[digits - 1] >= '0' && host[digits - 1] <= '9';
       ++digits)
    if (rangesHold(item.substr(1, close - 1), host.substr(0, digits)) &&
        itemNames(item.substr(close + 1), host.substr(digits)))
      return true;
  return false;
}

Result<std::string> readFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  if (!file || file.read(text.data(), static_cast<std::streamsize>(text.size())).bad())
    return systemError(errno, "HORING_GROUP_BY: %s cannot be read", path.c_str());
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes)
    return makeStatus(Code::kInvalidArgument, "HORING_GROUP_BY: %s is larger than %zu bytes", path.c_str(),
                      kMaxFileBytes);
  return text;
}

// The switch whose list of "nodes", or of "switches", contains the name; empty: none.
Result<std::string_view> switchWith(std::string_view text, std::string_view list, std::string_view named) {
  HostFinder finder(named);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    std::string_view name, members;
    while (!line.empty()) {
      const size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
      line.remove_prefix(begin);
      const size_t stop = std::min(line.find_first_of(" \t\r"), line.size());
      const std::string_view word = line.substr(0, stop);
      line.remove_prefix(stop);
      const size_t equals = std::min(word.find('='), word.size());
      const std::string key = lower(word.substr(0, equals));
      if (key == "switchname") name = word.substr(std::min(equals + 1, word.size()));
      if (key == list) members = word.substr(std::min(equals + 1, word.size()));
    }
    if (!name.empty() && finder.isIn(members)) return name;
  }
  if (!finder.gaveUp()) return std::string_view();
  return makeStatus(Code::kInvalidArgument, "the lists are too long to look for %s in them",
                    printable(named, 100).c_str());
}

// The length of the shortest prefix of `host` that the pattern matches; npos: none.
size_t matchedPrefix(std::string_view pattern, std::string_view host) {
  size_t at = 0;
  while (!pattern.empty()) {
    const size_t star = std::min(pattern.find('*'), pattern.size());
    const std::string_view literal = pattern.substr(0, star);
    if (host.substr(at, literal.size()) != literal) return std::string_view::npos;
    at += literal.size();
    pattern.remove_prefix(star);
    if (pattern.empty()) break;
    pattern.remove_prefix(1);
    const size_t next = std::min(pattern.find('*'), pattern.size());
    const size_t found = host.find(pattern.substr(0, next), at);
    if (found == std::string_view::npos) return found;
    at = next == 0 ? host.size() : found;
  }
  return at;
}

}  // namespace

bool hostListNames(std::string_view list, std::string_view host) {
  return HostFinder(host).isIn(list);
}

Result<std::string> switchesAbove(std::string_view text, std::string_view host) {
  const auto wrong = [](const char* what, std::string_view name) {
    return makeStatus(Code::kInvalidArgument, "%s %s", what, printable(name, 100).c_str());
  };
  HORING_ASSIGN(const std::string_view leaf, switchWith(text, "nodes", shortName(host)));
  if (leaf.empty()) return wrong("no switch lists the host", shortName(host));
  if (leaf.size() > kMaxLabelBytes) return wrong("the name of a switch is too long:", leaf);
  std::vector<std::string_view> known = {leaf};
  std::string path(leaf);
  for (;;) {
    const std::string_view name = known.back();
    if (name.find('/') != name.npos) return wrong("the name of a switch has a slash:", name);
    HORING_ASSIGN(const std::string_view above, switchWith(text, "switches", name));
    if (std::find(known.begin(), known.end(), above) != known.end())
      return wrong("a switch is above itself:", above);
    // Higher switches are less informative.
    if (above.empty() || known.size() == kMostLevels || above.size() + 1 + path.size() > kMaxLabelBytes)
      return path;
    known.push_back(above);
    path = std::string(above) + "/" + path;
  }
}

Result<GroupPlace> groupByRule(const std::string& rule, const std::string& host, const std::string& gpu,
                               const std::string& nvml) {
  if (rule.empty() || rule == "node") return GroupPlace();
  if (rule == "nvlink") {
    const Result<std::string> domain = readNvLinkDomain(gpu, nvml);
    if (domain.ok()) return GroupPlace{domain.value().empty() ? "" : "nvlink " + domain.value(), ""};
    return makeStatus(domain.status().code(), "HORING_GROUP_BY=nvlink: %s",
                      domain.status().message().c_str());
  }
  const bool by_node = rule.starts_with("node,");
  const std::string source = by_node ? rule.substr(5) : rule;
  if (source.starts_with("slurm:")) {
    HORING_ASSIGN(const std::string text, readFile(source.substr(6)));
    const Result<std::string> switches = switchesAbove(text, host);
    if (!switches.ok())
      return makeStatus(Code::kInvalidArgument, "HORING_GROUP_BY=%.200s: %s", rule.c_str(),
                        switches.status().message().c_str());
    const std::string leaf = switches.value().substr(switches.value().rfind('/') + 1);
    return GroupPlace{by_node ? "" : "switch " + leaf, switches.value()};
  }
  if (rule.starts_with("host:") && rule.size() > 5) {
    const size_t length = matchedPrefix(std::string_view(rule).substr(5), host);
    if (length != std::string_view::npos && length > 0)
      return GroupPlace{"hosts " + host.substr(0, std::min(length, kMaxLabelBytes)), ""};
    return makeStatus(Code::kInvalidArgument,
                      "HORING_GROUP_BY=%.200s: the host's name %.100s does not begin like this", rule.c_str(),
                      host.c_str());
  }
  return makeStatus(
      Code::kInvalidArgument,
      "HORING_GROUP_BY=%.200s: expected node, slurm:FILE or node,slurm:FILE with Slurm's topology.conf, "
      "host:PATTERN, like host:rack*-, or nvlink",
      rule.c_str());
}

}  // namespace horing
