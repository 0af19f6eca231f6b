// The good nodes, and their names as lists.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/number.h"
#include "horing_check/report.h"

namespace horing::check {

namespace {

// The number of trailing digits of a name, at most as many as a number can hold.
size_t digitsOf(const std::string& name) {
  size_t digits = 0;
  while (digits < name.size() && digits < 9 &&
         std::isdigit(static_cast<unsigned char>(name[name.size() - 1 - digits])))
    ++digits;
  return digits;
}

std::string padded(int number, size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

// "0-3,5"
std::string rangesOf(const std::set<int>& numbers, size_t width) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    while (std::next(last) != numbers.end() && *std::next(last) == *last + 1) ++last;
    text += (text.empty() ? "" : ",") + padded(*first, width);
    if (last != first) text += "-" + padded(*last, width);
    first = std::next(last);
  }
  return text;
}

}  // namespace

std::vector<int> goodNodes(const Report& report) {
  std::set<int> bad(report.missing.begin(), report.missing.end()), measured;
  for (const Sample& sample : report.figures.samples) measured.insert({sample.from, sample.to});
  std::vector<std::pair<int, int>> paths;
  for (const Finding& finding : report.verdict.findings) {
    if (!finding.confirmed) continue;
    if (finding.part == Part::kPath)
      paths.emplace_back(finding.node, finding.to);
    else
      bad.insert(finding.node);
  }
  for (const Uplink& uplink : report.verdict.uplinks)
    if (uplink.confirmed) bad.insert(uplink.nodes.begin(), uplink.nodes.end());
  // One end of each slow path must be excluded: the node that most slow paths have.
  for (;;) {
    std::map<int, int> count;
    for (const auto& [from, to] : paths)
      if (!bad.contains(from) && !bad.contains(to)) ++count[from], ++count[to];
    if (count.empty()) break;
    bad.insert(std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) {
                 return a.second < b.second;
               })->first);
  }
  std::vector<int> good;
  for (int node = 0; node < static_cast<int>(report.names.size()); ++node)
    if (measured.contains(node) && !bad.contains(node)) good.push_back(node);
  return good;
}

std::vector<std::string> goodHosts(const Report& report) {
  const auto hostOf = [&](int node) {
    const std::string& name = report.names[static_cast<size_t>(node)];
    return name.substr(0, name.find('/'));
  };
  const std::vector<int> good = goodNodes(report);
  std::set<std::string> spoiled, listed;
  for (int node = 0; node < static_cast<int>(report.names.size()); ++node)
    if (!std::binary_search(good.begin(), good.end(), node)) spoiled.insert(hostOf(node));
  std::vector<std::string> hosts;
  for (const int node : good)
    if (const std::string host = hostOf(node); !spoiled.contains(host) && listed.insert(host).second)
      hosts.push_back(host);
  return hosts;
}

std::string hostList(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, size_t>> order;  // in order: prefix and digits; 0: a whole name
  std::map<std::pair<std::string, size_t>, std::set<int>> numbers;
  const auto prefixOf = [](const std::string& name) { return name.substr(0, name.size() - digitsOf(name)); };
  // Only numbers with leading zeros have a width, and equally long numbers with the same prefix.
  std::set<std::pair<std::string, size_t>> widths;
  for (const std::string& name : names)
    if (const size_t digits = digitsOf(name); digits > 1 && name[name.size() - digits] == '0')
      widths.insert({prefixOf(name), digits});
  for (const std::string& name : names) {
    const size_t digits = digitsOf(name);
    const std::string last = name.substr(name.size() - digits);
    const std::pair<std::string, size_t> key = {prefixOf(name), widths.contains({prefixOf(name), digits})
                                                                    ? digits
                                                                : digits > 0 ? 1
                                                                             : 0};
    if (!numbers.contains(key)) order.push_back(key);
    std::set<int>& of_key = numbers[key];
    if (digits > 0) of_key.insert(numberOf<int>(last).value_or(0));
  }
  std::string text;
  for (const auto& key : order) {
    const std::set<int>& of_key = numbers[key];
    text += text.empty() ? "" : ",";
    text += key.first;
    if (of_key.size() == 1) text += padded(*of_key.begin(), key.second);
    if (of_key.size() > 1) text += "[" + rangesOf(of_key, key.second) + "]";
  }
  return text;
}

std::string hostListOf(const Report& report, const std::vector<int>& nodes) {
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(report.names[static_cast<size_t>(node)]);
  return hostList(names);
}

}  // namespace horing::check
