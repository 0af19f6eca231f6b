#include "control/flight_file.h"

#include "base/output.h"
#include "control/control_messages.h"

namespace horing {

std::string jsonEscaped(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      escaped += {'\\', letter};
    } else if (byte < 0x20 || byte >= 0x7f) {
      // Names and messages are ASCII; other bytes are replaced so that the file stays readable.
      escaped += formatString("\\u%04x", byte);
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

std::string messageFields(const RecordedMessage& record, bool by_kernel) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::string text = formatString("\"call\":\"%s\"", messageKindName(record.kind));
  const bool is_group = record.kind == MessageKind::kGroup;
  text += formatString(",\"%s\":%d,\"bytes\":%llu", is_group ? "messages" : "peer", record.peer,
                       number(record.bytes));
  if (!is_group) text += formatString(",\"type\":\"%s\"", dataTypeName(record.type));
  const bool is_numbered = record.kind == MessageKind::kSend || record.kind == MessageKind::kReceive;
  if (by_kernel) {
    text += formatString(",\"launch\":%llu", number(record.number));
  } else if (record.has_tag || is_numbered) {
    // A tag is text: readers such as jq keep 53 bits of a number.
    text += formatString(record.has_tag ? ",\"tag\":\"%llu\"" : ",\"number\":%llu", number(record.number));
  }
  return text + formatString(",\"state\":\"%s\"", messageStateName(record.state));
}

namespace {

std::string messageText(const RecordedMessage& record, bool by_kernel) {
  return formatString("{\"sequence\":%llu,%s,\"enqueued_ns\":%lld,\"started_ns\":%lld,\"ended_ns\":%lld}",
                      static_cast<unsigned long long>(record.sequence),
                      messageFields(record, by_kernel).c_str(), static_cast<long long>(record.enqueued_ns),
                      static_cast<long long>(record.started_ns), static_cast<long long>(record.ended_ns));
}

std::string operationText(const FlightRecord& record) {
  return formatString(
      "{\"sequence\":%llu,\"call\":\"%s\",\"arguments\":\"%s\",\"digest\":\"%016llx\",\"begun_ns\":%lld,"
      "\"ended_ns\":%lld,\"outcome\":\"%s\"}",
      static_cast<unsigned long long>(record.sequence), collectiveName(record.collective),
      argumentsText(record).c_str(), static_cast<unsigned long long>(agreementDigest(record)),
      static_cast<long long>(record.begun_ns), static_cast<long long>(record.ended_ns),
      outcomeName(record.outcome));
}

// The incomplete call, and its obstacle if one was recorded.
std::string waitingText(const CallReport& open, uint64_t first) {
  if (open.obstacle.empty()) return "null";
  std::string ranks;
  for (const int32_t rank : open.waits_for) ranks += formatString("%s%d", ranks.empty() ? "" : ",", rank);
  return formatString("{\"sequence\":%llu,\"for\":[%s],\"obstacle\":\"%s\"}",
                      static_cast<unsigned long long>(open.sequence - first), ranks.c_str(),
                      jsonEscaped(open.obstacle).c_str());
}

// How often kernels have run each part of a graph, and the number of the first run.
std::string replaysText(const CallLog& launches) {
  std::string text;
  for (const ReplayRuns& runs : launches.replays())
    text += formatString("%s\n{\"first\":%llu,\"call\":\"%s\",\"begun\":%llu,\"ended\":%llu}",
                         text.empty() ? "" : ",", static_cast<unsigned long long>(runs.of.encoded()),
                         collectiveName(static_cast<Collective>(runs.of.collective)),
                         static_cast<unsigned long long>(runs.begun),
                         static_cast<unsigned long long>(runs.ended));
  return text;
}

// All numbers count from 0, those of launches, too.
std::string logText(const CallLog& log) {
  const uint64_t first = log.first();
  const CallReport open = log.report(first + log.recorder().ended());
  std::string text =
      formatString("\"begun\":%llu,\"ended\":%llu,\"waiting\":%s,\n\"operations\":[",
                   static_cast<unsigned long long>(open.begun - first),
                   static_cast<unsigned long long>(open.ended - first), waitingText(open, first).c_str());
  const char* separator = "\n";
  for (const FlightRecord& record : log.recorder().last()) {
    text += separator + operationText(record);
    separator = ",\n";
  }
  text += "\n],\n\"messages\":[";
  separator = "\n";
  for (const RecordedMessage& record : log.messages().lastAndOpen(MessageRecorder::kUsualEntries)) {
    text += separator + messageText(record, first == kFirstLaunch);
    separator = ",\n";
  }
  return text + "\n]";
}

}  // namespace

std::string flightPath(const FlightFileOptions& options) {
  return formatString("%s/horing-%s-rank%d-%lld.json", options.folder.c_str(), options.job.c_str(),
                      options.rank, static_cast<long long>(thisProcess().pid));
}

Result<std::string> writeFlightFile(const FlightFileOptions& options, const CallLog& calls,
                                    const CallLog& launches, const Clock& clock, const Status& error) {
  const ProcessName process = thisProcess();
  const std::string text = formatString(
      "{\"horing_flight\":%d,\"job\":\"%s\",\"rank\":%d,\"ranks\":%d,\"host\":\"%s\",\"pid\":%lld,"
      "\"now_ns\":%lld,\n"
      "\"error\":\"%s\",\n%s,\n\"launches\":{%s,\n\"replays\":[%s]}}\n",
      kFlightVersion, options.job.c_str(), options.rank, options.ranks, jsonEscaped(process.host).c_str(),
      static_cast<long long>(process.pid), static_cast<long long>(clock.nowNs()),
      jsonEscaped(error.toString()).c_str(), logText(calls).c_str(), logText(launches).c_str(),
      replaysText(launches).c_str());
  const std::string path = flightPath(options);
  HORING_TRY(replaceFile(path, text));
  return path;
}

}  // namespace horing
