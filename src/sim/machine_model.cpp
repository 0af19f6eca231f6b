#include "sim/machine_model.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <set>
#include <vector>

#include "base/number.h"
#include "base/printable.h"

namespace horing {

namespace {

struct Number {
  const char* key;
  double* value;
  double least, most;
  bool is_whole;
  std::vector<double>* by_node = nullptr;  // for a key that takes a number for each node, too
};

// What stands in for fields that are no single double. Lists are empty if all nodes have the single number.
struct Nodes {
  double count, ranks;
  std::vector<double> ranks_of, rates_of;
};

// The numeric fields of a machine.
std::array<Number, 22> numbersOf(MachineModel& machine, Nodes& nodes) {
  LinkModel &between = machine.between, &inside = machine.inside;
  return {{{"nodes", &nodes.count, 1, kMaxModelNodes, true},
           {"ranks_per_node", &nodes.ranks, 1, kMaxModelRanksPerNode, true, &nodes.ranks_of},
           {"inter_latency_us", &between.latency_us, 0, 1e9, false},
           {"inter_gbytes_per_s", &between.gbytes_per_s, 0, 1e9, false, &nodes.rates_of},
           {"inter_burst_bytes", &between.burst_bytes, 0, 1e12, false},
           {"inter_message_us", &between.message_us, 0, 1e9, false},
           {"inter_start_us", &between.start_us, 0, 1e9, false},
           {"inter_cpu_gbytes_per_s", &between.cpu_gbytes_per_s, 0, 1e9, false},
           {"intra_latency_us", &inside.latency_us, 0, 1e9, false},
           {"intra_gbytes_per_s", &inside.gbytes_per_s, 0, 1e9, false},
           {"intra_message_us", &inside.message_us, 0, 1e9, false},
           {"intra_start_us", &inside.start_us, 0, 1e9, false},
           {"intra_cpu_gbytes_per_s", &inside.cpu_gbytes_per_s, 0, 1e9, false},
           {"same_core_cpu_gbytes_per_s", &machine.same_core_cpu_gbytes_per_s, 0, 1e9, false},
           {"memory_gbytes_per_s", &machine.memory_gbytes_per_s, 0, 1e9, false},
           {"cores", &machine.cores, 0, 1e6, false},
           {"step_us", &machine.step_us, 0, 1e9, false},
           {"copy_gbytes_per_s", &machine.copy_gbytes_per_s, 0, 1e9, false},
           {"fold_gbytes_per_s", &machine.fold_gbytes_per_s, 0, 1e9, false},
           {"turn_us", &machine.turn_us, 0, 1e9, false},
           {"wake_us", &machine.wake_us, 0, 1e9, false},
           {"patience_us", &machine.patience_us, 0, 1e9, false}}};
}

// A field whose value is one of a few words, by index.
struct Choice {
  const char* key;
  std::vector<const char*> words;
  size_t value;
};

std::array<Choice, 3> choicesOf(const MachineModel& machine) {
  return {{{"nic", {"rank", "node"}, machine.nic == Owner::kNode},
           {"cores_of", {"node", "machine"}, machine.cores_of == Owner::kMachine},
           {"links", {"both", "inside", "between"}, static_cast<size_t>(machine.links)}}};
}

void setChoices(const std::array<Choice, 3>& choices, MachineModel& machine) {
  machine.nic = choices[0].value == 0 ? Owner::kRank : Owner::kNode;
  machine.cores_of = choices[1].value == 0 ? Owner::kNode : Owner::kMachine;
  machine.links = static_cast<Links>(choices[2].value);
}

bool saysNothingOf(const MachineModel& machine, std::string_view key) {
  return (machine.links == Links::kInside && key.starts_with("inter_")) ||
         (machine.links == Links::kBetween && key.starts_with("intra_"));
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string shown(std::string_view text) {
  return printable(text, 40);
}

// Returns the fault, or "".
std::string setNumber(const Number& number, std::string_view text) {
  const std::optional<double> value = numberOf<double>(text);
  if (value && *value >= number.least && *value <= number.most &&
      (!number.is_whole || *value == std::floor(*value))) {
    *number.value = *value;
    return {};
  }
  return formatString("%s takes a %snumber from %g to %g, not '%s'", number.key,
                      number.is_whole ? "whole " : "", number.least, number.most, shown(text).c_str());
}

// A number, or one for each node. Returns the fault, or "".
std::string setNumbers(const Number& number, std::string_view text) {
  if (!number.by_node || text.find(',') == std::string_view::npos) return setNumber(number, text);
  for (bool is_last = false; !is_last;) {
    const size_t end = std::min(text.find(','), text.size());
    is_last = end == text.size();
    if (const std::string wrong = setNumber(number, trim(text.substr(0, end))); !wrong.empty()) return wrong;
    if (*number.value <= 0) return formatString("%s by node: each is above 0", number.key);
    number.by_node->push_back(*number.value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

std::string setChoice(Choice& choice, std::string_view text) {
  std::string expected;
  for (size_t i = 0; i < choice.words.size(); ++i) {
    if (text == choice.words[i]) {
      choice.value = i;
      return {};
    }
    expected += formatString("%s'%s'", i == 0 ? "" : " or ", choice.words[i]);
  }
  return formatString("%s is %s, not '%s'", choice.key, expected.c_str(), shown(text).c_str());
}

std::string listText(const Number& number) {
  std::string text = number.key;
  const char* separator = " = ";
  for (const double each : *number.by_node) {
    text += formatString("%s%.10g", separator, each);
    separator = ", ";
  }
  return text + "\n";
}

class Reader {
 public:
  // Returns the fault of the line, or "".
  std::string read(std::string_view line) {
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) return {};
    if (line.starts_with('<'))
      return "this is XML, such as a topology file, which 'horing-topo' reads; a machine is lines of "
             "'key = value': 'horing-sim machine' prints one";
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return "expected 'key = value', got '" + shown(line) + "'";
    const std::string_view key = trim(line.substr(0, equals)), value = trim(line.substr(equals + 1));
    if (!seen_.insert(std::string(key)).second) return "'" + shown(key) + "' is given twice";
    for (const Number& number : numbersOf(machine_, nodes_))
      if (key == number.key) return setNumbers(number, value);
    for (Choice& choice : choices_)
      if (key == choice.key) return setChoice(choice, value);
    return "there is no key '" + shown(key) + "'; 'horing-sim machine' prints them all";
  }

  // Whether lists have a number for each node; without `nodes`, the first one says how many there are. Returns the fault, or "".
  std::string checkLists() {
    for (const Number& number : numbersOf(machine_, nodes_)) {
      if (!number.by_node || number.by_node->empty()) continue;
      const size_t given = number.by_node->size();
      if (seen_.insert("nodes").second) nodes_.count = static_cast<double>(given);
      if (given != static_cast<size_t>(nodes_.count))
        return formatString("%s has %zu numbers, and there are %.0f nodes", number.key, given, nodes_.count);
    }
    return {};
  }

  MachineModel machine() const {
    MachineModel machine = machine_;
    std::vector<int32_t> sizes(static_cast<size_t>(nodes_.count), static_cast<int32_t>(nodes_.ranks));
    std::transform(nodes_.ranks_of.begin(), nodes_.ranks_of.end(), sizes.begin(),
                   [](double ranks) { return static_cast<int32_t>(ranks); });
    machine.setNodes(sizes);
    if (!nodes_.rates_of.empty()) machine.setRates(nodes_.rates_of);
    setChoices(choices_, machine);
    // Texts from before ranks of one core were measured separately.
    if (!seen_.contains("same_core_cpu_gbytes_per_s"))
      machine.same_core_cpu_gbytes_per_s = machine.inside.cpu_gbytes_per_s;
    return machine;
  }

 private:
  MachineModel machine_;
  Nodes nodes_{static_cast<double>(machine_.nodes), static_cast<double>(machine_.ranks_per_node), {}, {}};
  std::array<Choice, 3> choices_ = choicesOf(machine_);
  std::set<std::string> seen_;
};

}  // namespace

void MachineModel::setNodes(std::span<const int32_t> sizes) {
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  nodes = static_cast<int32_t>(sizes.size());
  ranks_per_node = *most;
  rails = *least == *most ? Rails() : Rails({sizes.begin(), sizes.end()});
  if (link_parts.size() != sizes.size()) link_parts.clear();
}

void MachineModel::setRates(std::span<const double> gbytes_per_s) {
  const auto [least, most] = std::minmax_element(gbytes_per_s.begin(), gbytes_per_s.end());
  between.gbytes_per_s = *most;
  link_parts.clear();
  if (*least == *most) return;
  for (const double rate : gbytes_per_s) link_parts.push_back({rate / *most, rate / *most});
}

Picoseconds toPicoseconds(double microseconds) {
  return std::llround(microseconds * kPicosecondsPerMicrosecond);
}

double toMicroseconds(Picoseconds time) {
  return static_cast<double>(time) / kPicosecondsPerMicrosecond;
}

Result<MachineModel> parseMachine(std::string_view text, std::string_view source) {
  Reader reader;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (const std::string wrong = reader.read(text.substr(0, end)); !wrong.empty())
      return makeStatus(Code::kInvalidArgument, "%.*s, line %d: %s", static_cast<int>(source.size()),
                        source.data(), line, wrong.c_str());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (const std::string wrong = reader.checkLists(); !wrong.empty())
    return makeStatus(Code::kInvalidArgument, "%.*s: %s", static_cast<int>(source.size()), source.data(),
                      wrong.c_str());
  return reader.machine();
}

Result<MachineModel> readMachine(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return systemError(errno, "cannot read the machine's description %s", path.c_str());
  std::string text(kMaxMachineTextBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  // A folder opens like a file and reads as empty: without this check it would mean the defaults.
  if (file.bad())
    return makeStatus(Code::kInvalidArgument,
                      "cannot read the machine's description %s: it is no file, or broken", path.c_str());
  if (text.size() > kMaxMachineTextBytes)
    return makeStatus(Code::kInvalidArgument,
                      "%s is longer than %zu bytes: it is no description of a machine", path.c_str(),
                      kMaxMachineTextBytes);
  return parseMachine(text, path);
}

std::string describeMachine(const MachineModel& given) {
  MachineModel machine = given;
  Nodes nodes{static_cast<double>(machine.nodes), static_cast<double>(machine.ranks_per_node), {}, {}};
  nodes.ranks_of.assign(machine.rails.sizes().begin(), machine.rails.sizes().end());
  for (const LinkParts& parts : machine.link_parts)
    nodes.rates_of.push_back(std::min(parts.sends, parts.receives) * machine.between.gbytes_per_s);
  std::string text;
  for (const Number& number : numbersOf(machine, nodes)) {
    const bool is_list = number.by_node && !number.by_node->empty();
    text += saysNothingOf(machine, number.key) ? formatString("# %s: not measured\n", number.key)
            : is_list                          ? listText(number)
                                               : formatString("%s = %.10g\n", number.key, *number.value);
  }
  for (const Choice& choice : choicesOf(machine))
    text += formatString("%s = %s\n", choice.key, choice.words[choice.value]);
  return text;
}

Status checkLinksKnown(const MachineModel& machine) {
  const bool lacks_between = machine.nodes > 1 && machine.links == Links::kInside;
  const bool lacks_inside = machine.ranks_per_node > 1 && machine.links == Links::kBetween;
  if (!lacks_between && !lacks_inside) return {};
  return makeStatus(
      Code::kInvalidArgument,
      "the description of the machine says nothing of links %s (links = %s), and here are %d groups of "
      "up to %d ranks: let 'horing-tune -o FILE' measure in a job of this shape",
      lacks_between ? "between groups" : "inside a group", lacks_between ? "inside" : "between",
      machine.nodes, machine.ranks_per_node);
}

}  // namespace horing
