#include "job.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace horing::test {

std::vector<std::string> jobCommand(const JobOptions& options) {
  std::vector<std::string> all = {"env"};
  const auto add = [&](const std::vector<std::string>& words) {
    all.insert(all.end(), words.begin(), words.end());
  };
  add(options.environment);
  add({HORING_RUN_PROGRAM, "-n", std::to_string(options.ranks), "--keep-going", "--timeout", "100", "--grace",
       "0.5"});
  add(options.run);
  add({"--"});
  add(options.before);
  add({HORING_RANK_PROGRAM});
  add(options.words);
  return all;
}

std::vector<Event> eventsOf(const std::string& output) {
  std::vector<Event> events;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    std::string word;
    Event event;
    if (!(in >> word) || word != "event") continue;
    in >> event.name >> word >> event.rank >> word >> event.code >> word >> event.at_ms >> word >>
        event.took_ms >> word >> event.cpu_ms >> word >> std::ws;
    std::getline(in, event.text);
    events.push_back(event);
  }
  return events;
}

int countOf(const Program& program, const std::string& name) {
  int count = 0;
  for (const Event& event : eventsOf(program.output())) count += event.name == name;
  return count;
}

Event eventOf(const std::vector<Event>& events, const std::string& name, int rank) {
  for (const Event& event : events)
    if (event.name == name && event.rank == rank) return event;
  ADD_FAILURE() << "rank " << rank << " did not say " << name;
  return {};
}

Event failureOf(const std::vector<Event>& events, int rank) {
  for (const Event& event : events)
    if (event.rank == rank && event.code != kSuccess && event.name != "signal") return event;
  ADD_FAILURE() << "rank " << rank << " did not fail";
  return {};
}

JobOutcome endOf(Program& program) {
  JobOutcome outcome;
  outcome.code = program.wait();
  outcome.events = eventsOf(program.output());
  outcome.everything = program.output() + program.errors();
  return outcome;
}

JobOutcome runJob(const JobOptions& options) {
  Program program(jobCommand(options));
  return endOf(program);
}

JobOutcome runWithLateCaller(JobOptions options, int late) {
  const ShmFolder folder;
  const std::string gate = folder.path() + "/ended";
  options.words.push_back(std::to_string(late) + ":call_when=" + gate);
  Program program(jobCommand(options));
  EXPECT_TRUE(eventually([&] { return countOf(program, "end") == options.ranks - 1; }))
      << program.output() << program.errors();
  std::ofstream(gate).flush();
  return endOf(program);
}

bool namesRank(const std::string& text, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end == text.size() || !std::isdigit(static_cast<unsigned char>(text[end]))) return true;
  }
  return false;
}

namespace {
// What a command needs in front to run in a network namespace of that horing-run.
std::vector<std::string> inNetwork(const std::string& net, pid_t horing_run) {
  namespace fs = std::filesystem;
  const std::string user = "/proc/" + std::to_string(horing_run) + "/ns/user";
  std::vector<std::string> command = {"nsenter", "--net=" + net};
  if (fs::read_symlink(user) != fs::read_symlink("/proc/self/ns/user"))
    command.insert(command.end(), {"--user=" + user, "--preserve-credentials"});
  return command;
}
}  // namespace

bool destroySockets(pid_t horing_run, int rank, int least) {
  namespace fs = std::filesystem;
  // Its process, as this side of the job's PID namespace numbers it: a child of horing-run.
  const std::string children =
      "/proc/" + std::to_string(horing_run) + "/task/" + std::to_string(horing_run) + "/children";
  std::ifstream list(children);
  for (std::string child; list >> child;) {
    std::ifstream file("/proc/" + child + "/environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    if (('\0' + environment).find('\0' + ("RANK=" + std::to_string(rank)) + '\0') == std::string::npos)
      continue;
    const std::string net = "/proc/" + child + "/ns/net";
    std::error_code error;
    if (fs::read_symlink(net, error) == fs::read_symlink("/proc/self/ns/net") || error) break;
    // Listening sockets, too; -H: no header.
    const auto sockets = [&](std::vector<std::string> options) {
      std::vector<std::string> command = inNetwork(net, horing_run);
      command.insert(command.end(), {"ss", "-H", "-a", "-t"});
      command.insert(command.end(), options.begin(), options.end());
      const Outcome outcome = runProgram(command);
      return outcome.code == 0 ? std::count(outcome.output.begin(), outcome.output.end(), '\n') : -1;
    };
    return eventually([&] { return sockets({}) >= least; }) && sockets({"-K"}) >= least;
  }
  ADD_FAILURE() << "cannot destroy the sockets of rank " << rank;
  return false;
}

// The switch is a network namespace that only a descriptor of horing-run holds.
bool setLink(pid_t horing_run, int node, const std::string& state) {
  namespace fs = std::filesystem;
  const std::string process = "/proc/" + std::to_string(horing_run);
  std::string last;
  for (const auto& entry : fs::directory_iterator(process + "/fd")) {
    std::error_code error;
    if (!fs::read_symlink(entry.path(), error).string().starts_with("net:[")) continue;
    std::vector<std::string> command = inNetwork(entry.path().string(), horing_run);
    command.insert(command.end(), {"ip", "link", "set", "n" + std::to_string(node) + "r0", state});
    const Outcome outcome = runProgram(command);
    if (outcome.code == 0) return true;
    last = outcome.errors;
  }
  ADD_FAILURE() << "cannot set the link of node " << node << ": " << last;
  return false;
}

ShmFolder::ShmFolder() : path_("/dev/shm/horing-trouble-XXXXXX") {
  if (!mkdtemp(path_.data())) ADD_FAILURE() << "no folder in /dev/shm";
}

ShmFolder::~ShmFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> ShmFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename());
  return names;
}

}  // namespace horing::test
