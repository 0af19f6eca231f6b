#include "horing_info/flight_trace.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/printable.h"
#include "control/call_ledger.h"
#include "control/flight_file.h"
#include "control/rank_list.h"
#include "control/root_service.h"
#include "horing_info/message_trace.h"

namespace horing::info {

namespace {

using nlohmann::json;

struct Operation {
  std::string call, arguments, outcome;
  uint64_t digest = 0;
  int64_t begun_ns = 0;
};

// The calls of a rank, or the launches of its kernels.
struct CallsOfRank {
  uint64_t begun = 0, ended = 0;
  std::map<uint64_t, Operation> operations;
  std::vector<TracedMessage> messages;
  uint64_t waiting_sequence = 0;
  std::vector<int32_t> waits_for;
  std::string obstacle;
};

// The runs of a part of a plan by kernels (control/replay_number.h).
struct Runs {
  std::string call;
  uint64_t begun = 0;
};

// One file.
struct Flight {
  std::string job, where, error;
  int rank = 0, ranks = 0;
  int64_t now_ns = 0;
  CallsOfRank calls, launches;
  std::map<uint64_t, Runs> replays;  // by the number of the first run
};
using Kind = CallsOfRank Flight::*;

// Whoever may write to the folder of the records may write anything into them.
std::string textFrom(const json& from) {
  const std::string text = from;
  return printable(text, text.size());
}

// `first` is added to the numbers of the file. `ranks`: of the job.
CallsOfRank parseCalls(const json& from, uint64_t first, int ranks) {
  CallsOfRank calls;
  calls.begun = first + from.at("begun").get<uint64_t>();
  calls.ended = first + from.at("ended").get<uint64_t>();
  for (const json& one : from.at("operations")) {
    const uint64_t digest = std::stoull(one.at("digest").get<std::string>(), nullptr, 16);
    calls.operations[first + one.at("sequence").get<uint64_t>()] = {
        textFrom(one.at("call")), textFrom(one.at("arguments")), textFrom(one.at("outcome")), digest,
        one.at("begun_ns")};
  }
  if (const json& waiting = from.at("waiting"); !waiting.is_null()) {
    calls.waiting_sequence = first + waiting.at("sequence").get<uint64_t>();
    calls.waits_for = waiting.at("for").get<std::vector<int32_t>>();
    calls.obstacle = textFrom(waiting.at("obstacle"));
  }
  calls.messages = parseMessages(from.at("messages"), ranks);
  return calls;
}

std::map<uint64_t, Runs> parseReplays(const json& from) {
  std::map<uint64_t, Runs> replays;
  for (const json& one : from) {
    const uint64_t first = one.at("first");
    if (first < kFirstReplay || ReplayNumber::decoded(first).run != 0)
      throw std::invalid_argument("graph replays have no such number");
    replays[first] = {textFrom(one.at("call")), one.at("begun")};
  }
  return replays;
}

// Throws json::exception and std::logic_error if the file is not in the format of writeFlightFile().
Flight parseFlight(const json& file) {
  Flight flight;
  if (const json& version = file.at("horing_flight"); version != kFlightVersion)
    throw std::invalid_argument(
        formatString("its format has version %s, and this horing-info reads version %d: use that of the job",
                     version.dump().c_str(), kFlightVersion));
  flight.job = textFrom(file.at("job"));
  flight.rank = file.at("rank");
  flight.ranks = file.at("ranks");
  if (flight.ranks < 1 || flight.ranks > kMaxRanks || flight.rank < 0 || flight.rank >= flight.ranks)
    throw std::invalid_argument("its rank is out of range");
  flight.where = textFrom(file.at("host")) + ", pid " + std::to_string(file.at("pid").get<int64_t>());
  flight.now_ns = file.at("now_ns");
  if (flight.now_ns < 0) throw std::invalid_argument("its time is out of range");
  flight.error = textFrom(file.at("error"));
  flight.calls = parseCalls(file, 0, flight.ranks);
  flight.launches = parseCalls(file.at("launches"), kFirstLaunch, flight.ranks);
  flight.replays = parseReplays(file.at("launches").value("replays", json::array()));
  return flight;
}

Result<Flight> readFlight(const std::string& path) {
  std::ifstream file(path);
  if (!file) return makeStatus(Code::kInvalidArgument, "%s cannot be read", path.c_str());
  try {
    return parseFlight(json::parse(file));
  } catch (const std::exception& error) {
    return makeStatus(Code::kInvalidArgument, "%s is no flight record of horing (see HORING_FLIGHT_DIR): %s",
                      path.c_str(), error.what());
  }
}

// The report that a rank would have sent.
CallReport reportOf(const Flight& flight, Kind kind, uint64_t sequence) {
  const CallsOfRank& calls = flight.*kind;
  CallReport report;
  report.sequence = sequence;
  report.begun = calls.begun;
  report.ended = calls.ended;
  if (const auto found = calls.operations.find(sequence); found != calls.operations.end()) {
    report.digest = found->second.digest;
    report.name = found->second.call;
    report.arguments = found->second.arguments;
    report.timeout_ms = static_cast<uint32_t>(
        std::clamp<int64_t>((flight.now_ns - found->second.begun_ns) / 1'000'000, 1, UINT32_MAX));
  }
  if (calls.waiting_sequence == sequence) {
    report.waits_for = calls.waits_for;
    report.obstacle = calls.obstacle;
  }
  return report;
}

std::string callText(const CallsOfRank& calls, uint64_t sequence) {
  const auto found = calls.operations.find(sequence);
  if (found == calls.operations.end()) return "call " + callNumberText(sequence);
  return formatString("%s %s (%s)", found->second.call.c_str(), callNumberText(sequence).c_str(),
                      found->second.arguments.c_str());
}

std::vector<int> ranksWithoutFile(const std::map<int, Flight>& flights, int ranks) {
  std::vector<int> absent;
  for (int rank = 0; rank < ranks; ++rank)
    if (!flights.contains(rank)) absent.push_back(rank);
  return absent;
}

// No rank with a file was in a call, so ranks without a file cannot be blamed for one.
std::string verdictBetweenCalls(const std::map<int, Flight>& flights, uint64_t completed, int ranks) {
  const std::vector<int> absent = ranksWithoutFile(flights, ranks);
  const std::string calls =
      formatString("completed their %llu %s", static_cast<unsigned long long>(completed % kFirstLaunch),
                   completed < kFirstLaunch ? "calls" : "launches");
  if (absent.empty()) return "all ranks " + calls;
  return formatString(
      "%s %s left no file: killed, stopped, or cut off from the network; the others %s and were in none",
      absent.size() == 1 ? "rank" : "ranks", rankList(absent).c_str(), calls.c_str());
}

// What ended the waiting, by the errors that the ranks reported.
std::string limitOf(const std::map<int, Flight>& flights) {
  for (const char* variable : {"HORING_TIMEOUT_MS", "HORING_HEARTBEAT_MS"})
    for (const auto& [rank, flight] : flights)
      if (flight.error.find(variable) != std::string::npos) return variable;
  return "until the job failed";
}

// The ranks' answers about a call go to the same judge as in the live job.
std::string judged(const std::map<int, CallReport>& reports, int ranks, const std::string& limit) {
  CallLedger ledger(limit);
  CallReport overdue = reports.begin()->second;
  for (const auto& [rank, report] : reports) {
    overdue.timeout_ms = std::max(overdue.timeout_ms, report.timeout_ms);
    ledger.report(rank, ranks, report, 0);
  }
  // Treat the call's deadline as passed: the first report stands, and all ranks have had time to answer.
  overdue.kind = CallReport::Kind::kOverdue;
  ledger.report(reports.begin()->first, ranks, overdue, 0);
  ledger.takeInquiries();
  for (const auto& [rank, report] : reports) {
    CallReport again = report;
    again.round = 1;
    ledger.report(rank, ranks, again, 0);
  }
  const auto verdict = ledger.judge({ranks, ranks, [](int) { return true; }}, INT64_MAX - 1);
  return verdict ? verdict->reason : "no verdict";
}

// The first call that is not complete on all ranks; nothing: all begun calls are complete.
std::optional<uint64_t> firstOpen(const std::map<int, Flight>& flights, Kind kind) {
  uint64_t first_open = UINT64_MAX, last_begun = 0;
  for (const auto& [rank, flight] : flights) {
    first_open = std::min(first_open, (flight.*kind).ended);
    last_begun = std::max(last_begun, (flight.*kind).begun);
  }
  return first_open < last_begun ? std::optional(first_open) : std::nullopt;
}

std::string verdictOn(const std::map<int, Flight>& flights, Kind kind, int ranks) {
  const std::optional<uint64_t> open = firstOpen(flights, kind);
  if (!open) return verdictBetweenCalls(flights, (flights.begin()->second.*kind).ended, ranks);
  std::map<int, CallReport> reports;
  for (const auto& [rank, flight] : flights) reports[rank] = reportOf(flight, kind, *open);
  return judged(reports, ranks, limitOf(flights));
}

// Verdicts on replays that some ranks have begun and others never did. If ranks are processes, host launches are counted, too; but these
// are complete, or the ranks wait in them.
std::set<std::string> verdictsOnReplays(const std::map<int, Flight>& flights, int ranks) {
  std::set<std::string> verdicts;
  if (firstOpen(flights, &Flight::launches)) return verdicts;
  std::map<uint64_t, std::map<int, Runs>> plans;
  for (const auto& [rank, flight] : flights)
    for (const auto& [first, runs] : flight.replays) plans[first][rank] = runs;
  for (auto& [first, runs_of] : plans) {
    const std::string call = runs_of.begin()->second.call;
    for (const auto& [rank, flight] : flights) runs_of[rank];  // ranks without entries have begun none
    const auto begun = [](const auto& one, const auto& other) {
      return one.second.begun < other.second.begun;
    };
    const auto [least, most] = std::minmax_element(runs_of.begin(), runs_of.end(), begun);
    const uint64_t run = least->second.begun;
    if (run == most->second.begun) continue;
    std::map<int, CallReport> reports;
    for (const auto& [rank, runs] : runs_of) {
      CallReport& report = reports[rank];
      report.sequence = first + run % (uint64_t{ReplayNumber::kRunMask} + 1);
      // Kernels that gave up have ended as well; their waiting time is not recorded.
      report.begun = report.ended = report.sequence + (runs.begun > run);
      if (runs.begun > run) {
        report.digest = 1;
        report.name = call;
      }
    }
    verdicts.insert(judged(reports, ranks, limitOf(flights)));
  }
  return verdicts;
}

bool haveLaunched(const std::map<int, Flight>& flights) {
  return std::any_of(flights.begin(), flights.end(),
                     [](const auto& entry) { return entry.second.launches.begun > kFirstLaunch; });
}

std::string placeText(const CallsOfRank& calls, int64_t now_ns) {
  const std::string messages = openMessagesText(calls.messages, now_ns);
  if (calls.begun % kFirstLaunch == 0) {
    if (!messages.empty()) return messages;
    return calls.messages.empty() ? "made no call" : "all its messages are complete";
  }
  const std::string and_messages = messages.empty() ? "" : "; " + messages;
  if (calls.begun > calls.ended)
    return "in " + callText(calls, calls.ended) + (calls.obstacle.empty() ? "" : ", " + calls.obstacle) +
           and_messages;
  return "completed " + callText(calls, calls.ended - 1) +
         (messages.empty() ? ", and called no more" : and_messages);
}

MessagesOfRank messagesOf(const Flight& flight) {
  const auto is_in_call = [](const CallsOfRank& calls) { return calls.begun > calls.ended; };
  return {flight.calls.messages, flight.launches.messages,
          is_in_call(flight.calls) || is_in_call(flight.launches), flight.now_ns};
}

std::string rankLine(const Flight& flight) {
  std::string text = formatString("rank %d (%s): %s", flight.rank, flight.where.c_str(),
                                  placeText(flight.calls, flight.now_ns).c_str());
  if (flight.launches.begun > kFirstLaunch || !flight.launches.messages.empty())
    text += "; its GPU: " + placeText(flight.launches, flight.now_ns);
  return text;
}

using Errors = std::map<std::string, std::vector<int>>;  // and the ranks that reported them

// Whether ranks report that another was lost, or had an error.
bool wasLost(const Errors& errors) {
  return std::ranges::any_of(
      errors, [](const auto& entry) { return entry.first.starts_with(codeName(Code::kRemoteError)); });
}

// What most ranks said while the job ran, if some left no file: it says more than the files that are left. Empty: only that a rank is lost,
// which may have ended after it had reported the same as the others.
std::string reportedVerdict(const Errors& errors) {
  const std::string lost = codeName(Code::kRemoteError);
  const std::vector<int>* most = nullptr;
  std::string verdict;
  for (const auto& [error, who] : errors) {
    if (error.empty() || error.starts_with(lost) || (most && who.size() <= most->size())) continue;
    most = &who;
    verdict = formatString("%s (reported by %s %s)", error.c_str(), who.size() == 1 ? "rank" : "ranks",
                           rankList(who).c_str());
  }
  return verdict;
}

}  // namespace

Result<std::string> mergeFlights(const std::vector<std::string>& files) {
  std::map<int, Flight> flights;
  Errors errors;
  std::vector<Status> unread;
  for (const std::string& path : files) {
    Result<Flight> read = readFlight(path);
    if (!read.ok()) {
      unread.push_back(read.status());
      continue;
    }
    Flight flight = read.take();
    const Flight& first = flights.empty() ? flight : flights.begin()->second;
    if (flight.job != first.job || flight.ranks != first.ranks)
      return makeStatus(Code::kInvalidArgument,
                        "%s is of job %s with %d ranks, the files before it are of job %s with %d: give the "
                        "files of one job",
                        path.c_str(), flight.job.c_str(), flight.ranks, first.job.c_str(), first.ranks);
    if (flights.contains(flight.rank))
      return makeStatus(Code::kInvalidArgument, "%s is a second file of rank %d", path.c_str(), flight.rank);
    flights.emplace(flight.rank, std::move(flight));
  }
  if (flights.empty()) return unread.front();
  const int ranks = flights.begin()->second.ranks;
  for (const auto& [rank, flight] : flights) errors[flight.error].push_back(rank);
  const std::vector<int> absent = ranksWithoutFile(flights, ranks);
  std::string verdict = absent.empty() ? std::string() : reportedVerdict(errors);
  if (verdict.empty()) verdict = verdictOn(flights, &Flight::calls, ranks);
  std::string text = "verdict: " + verdict + "\n";
  if (haveLaunched(flights))
    text += "verdict on kernels: " + verdictOn(flights, &Flight::launches, ranks) + "\n";
  std::map<int, MessagesOfRank> messages;
  for (const auto& [rank, flight] : flights) messages[rank] = messagesOf(flight);
  for (const std::string& on_messages : verdictsOnMessages(messages, !absent.empty() && wasLost(errors)))
    text += "verdict on messages: " + on_messages + "\n";
  for (const std::string& on_replays : verdictsOnReplays(flights, ranks))
    text += "verdict on replays: " + on_replays + "\n";
  for (const auto& [error, who] : errors)
    text += formatString("%s %s reported: %s\n", who.size() == 1 ? "rank" : "ranks", rankList(who).c_str(),
                         error.c_str());
  if (!absent.empty())
    text +=
        formatString("no file of %s %s\n", absent.size() == 1 ? "rank" : "ranks", rankList(absent).c_str());
  for (const Status& status : unread) text += status.message() + ": left out\n";
  for (const auto& [rank, flight] : flights) text += rankLine(flight) + "\n";
  return text;
}

}  // namespace horing::info
