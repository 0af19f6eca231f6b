#include "sim/machine_model.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>

namespace horing {

namespace {

struct Number {
  const char* key;
  double* value;
  double least, most;
  bool is_whole;
};

// What is a number, of one machine. `nodes` and `ranks` stand in for the two that are whole.
std::array<Number, 18> numbersOf(MachineModel& machine, double& nodes, double& ranks) {
  LinkModel &between = machine.between, &inside = machine.inside;
  return {{{"nodes", &nodes, 1, kMaxModelNodes, true},
           {"ranks_per_node", &ranks, 1, kMaxModelRanksPerNode, true},
           {"inter_latency_us", &between.latency_us, 0, 1e9, false},
           {"inter_gbytes_per_s", &between.gbytes_per_s, 0, 1e9, false},
           {"inter_message_us", &between.message_us, 0, 1e9, false},
           {"inter_cpu_gbytes_per_s", &between.cpu_gbytes_per_s, 0, 1e9, false},
           {"intra_latency_us", &inside.latency_us, 0, 1e9, false},
           {"intra_gbytes_per_s", &inside.gbytes_per_s, 0, 1e9, false},
           {"intra_message_us", &inside.message_us, 0, 1e9, false},
           {"intra_cpu_gbytes_per_s", &inside.cpu_gbytes_per_s, 0, 1e9, false},
           {"memory_gbytes_per_s", &machine.memory_gbytes_per_s, 0, 1e9, false},
           {"cores", &machine.cores, 0, 1e6, false},
           {"step_us", &machine.step_us, 0, 1e9, false},
           {"copy_gbytes_per_s", &machine.copy_gbytes_per_s, 0, 1e9, false},
           {"fold_gbytes_per_s", &machine.fold_gbytes_per_s, 0, 1e9, false},
           {"turn_us", &machine.turn_us, 0, 1e9, false},
           {"wake_us", &machine.wake_us, 0, 1e9, false},
           {"patience_us", &machine.patience_us, 0, 1e9, false}}};
}

struct Choice {
  const char* key;
  Owner* value;
  Owner other;  // than the first of the two
  const char* first_name;
  Owner first;
  const char* other_name;
};

std::array<Choice, 2> choicesOf(MachineModel& machine) {
  return {{{"nic", &machine.nic, Owner::kNode, "rank", Owner::kRank, "node"},
           {"cores_of", &machine.cores_of, Owner::kMachine, "node", Owner::kNode, "machine"}}};
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string shown(std::string_view text) {
  return std::string(text.substr(0, 40));
}

// `wrong` is what the caller's message says then.
std::string setNumber(const Number& number, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  if (is_number && value >= number.least && value <= number.most &&
      (!number.is_whole || value == std::floor(value))) {
    *number.value = value;
    return {};
  }
  return formatString("%s takes a %snumber from %g to %g, not '%s'", number.key,
                      number.is_whole ? "whole " : "", number.least, number.most, shown(text).c_str());
}

std::string setChoice(const Choice& choice, std::string_view text) {
  if (text != choice.first_name && text != choice.other_name)
    return formatString("%s is '%s' or '%s', not '%s'", choice.key, choice.first_name, choice.other_name,
                        shown(text).c_str());
  *choice.value = text == choice.first_name ? choice.first : choice.other;
  return {};
}

class Reader {
 public:
  Reader() : nodes_(machine_.nodes), ranks_(machine_.ranks_per_node) {}

  // Empty, or what is wrong with the line.
  std::string read(std::string_view line) {
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) return {};
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return "expected 'key = value', got '" + shown(line) + "'";
    const std::string_view key = trim(line.substr(0, equals)), value = trim(line.substr(equals + 1));
    if (!seen_.insert(std::string(key)).second) return "'" + shown(key) + "' is given twice";
    for (const Number& number : numbersOf(machine_, nodes_, ranks_))
      if (key == number.key) return setNumber(number, value);
    for (const Choice& choice : choicesOf(machine_))
      if (key == choice.key) return setChoice(choice, value);
    return "there is no key '" + shown(key) + "'; 'horing-sim machine' prints them all";
  }

  MachineModel machine() const {
    MachineModel machine = machine_;
    machine.nodes = static_cast<int32_t>(nodes_);
    machine.ranks_per_node = static_cast<int32_t>(ranks_);
    return machine;
  }

 private:
  MachineModel machine_;
  double nodes_, ranks_;
  std::set<std::string> seen_;
};

}  // namespace

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
  return reader.machine();
}

Result<MachineModel> readMachine(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return systemError(errno, "cannot read the machine's description %s", path.c_str());
  std::string text(kMaxMachineTextBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  // A folder opens like a file, and would pass for an empty one: the defaults in place of what was measured.
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
  double nodes = machine.nodes, ranks = machine.ranks_per_node;
  std::string text;
  for (const Number& number : numbersOf(machine, nodes, ranks))
    text += formatString("%s = %.10g\n", number.key, *number.value);
  for (const Choice& choice : choicesOf(machine))
    text += formatString("%s = %s\n", choice.key,
                         *choice.value == choice.first ? choice.first_name : choice.other_name);
  return text;
}

}  // namespace horing
