#include "control/metrics.h"

#include <algorithm>
#include <vector>

#include "base/status.h"

namespace horing {

namespace {

std::string secondsText(int64_t ns) {
  return formatString("%lld.%06lld", static_cast<long long>(ns / 1'000'000'000),
                      static_cast<long long>(ns % 1'000'000'000 / 1000));
}

// A metric family: samples of one name, with the labels that all samples have.
class Family {
 public:
  Family(const MetricsOf& of, const char* name, const char* type, const char* help)
      : labels_(formatString("comm=\"%s\",rank=\"%d\",pid=\"%lld\"", of.communicator.c_str(), of.rank,
                             static_cast<long long>(of.pid))),
        name_(name),
        is_counter_(std::string_view(type) == "counter"),
        text_(formatString("# TYPE %s %s\n# HELP %s %s\n", name, type, name, help)) {}

  void add(const std::string& labels, const std::string& value) {
    text_ += formatString("%s%s{%s%s%s} %s\n", name_, is_counter_ ? "_total" : "", labels_.c_str(),
                          labels.empty() ? "" : ",", labels.c_str(), value.c_str());
  }
  const std::string& text() const { return text_; }

 private:
  std::string labels_;
  const char* name_;
  bool is_counter_;
  std::string text_;
};

std::string callsText(const MetricsOf& of, const CallLog& calls, const CallLog& launches) {
  Family count(of, "horing_calls", "counter", "Collectives that have ended well.");
  Family bytes(of, "horing_call_bytes", "counter", "Bytes given to them.");
  Family inside(of, "horing_call_seconds", "counter", "Time inside them, waiting for other ranks included.");
  for (const CallLog* log : {&calls, &launches})
    for (int number = 0; number < kCollectives; ++number) {
      const auto collective = static_cast<Collective>(number);
      const CallTotals totals = log->recorder().totals(collective);
      if (totals.calls == 0) continue;
      const std::string labels = formatString("collective=\"%s\",by=\"%s\"", collectiveName(collective),
                                              log == &calls ? "host" : "kernel");
      count.add(labels, std::to_string(totals.calls));
      bytes.add(labels, std::to_string(totals.bytes));
      inside.add(labels, secondsText(totals.inside_ns));
    }
  return count.text() + bytes.text() + inside.text();
}

std::string waitsText(const MetricsOf& of, const WaitTimes& times) {
  const auto of_peer = [&](int peer, bool for_room) {
    return times.ns({.peer = peer, .for_room = for_room});
  };
  std::vector<int> peers;
  for (int peer = 0; peer < times.ranks(); ++peer)
    if (of_peer(peer, false) + of_peer(peer, true) > 0) peers.push_back(peer);
  std::ranges::stable_sort(peers, std::greater(),
                           [&](int peer) { return of_peer(peer, false) + of_peer(peer, true); });
  if (peers.size() > kMostMetricPeers) peers.resize(kMostMetricPeers);
  Family waits(of, "horing_wait_seconds", "counter",
               "Time in which a collective or message waited for a rank: for its data, or for room to send, "
               "or had data under way to it.");
  for (const int peer : peers)
    for (const bool for_room : {false, true})
      waits.add(formatString("peer=\"%d\",for=\"%s\"", peer, for_room ? "room" : "data"),
                secondsText(of_peer(peer, for_room)));
  return waits.text();
}

// How long the call in progress has taken so far; 0: none is in progress.
int64_t ageNs(const FlightRecorder& recorder, int64_t now_ns) {
  const uint64_t begun = recorder.begun();
  if (begun == recorder.ended()) return 0;
  const std::optional<FlightRecord> record = recorder.find(begun - 1);
  return record && record->outcome == Outcome::kRunning ? std::max<int64_t>(now_ns - record->begun_ns, 0) : 0;
}

}  // namespace

std::string metricsText(const MetricsOf& of, const CallLog& calls, const CallLog& launches, int64_t now_ns,
                        int64_t wall_ms) {
  Family ranks(of, "horing_ranks", "gauge", "Ranks of the communicator.");
  ranks.add("", std::to_string(of.ranks));
  Family age(of, "horing_call_age_seconds", "gauge",
             "How long the collective in progress has taken so far; 0: none is in progress.");
  age.add("", secondsText(ageNs(calls.recorder(), now_ns)));
  Family written(of, "horing_written_timestamp_seconds", "gauge", "When this was written.");
  written.add("", secondsText(wall_ms * 1'000'000));
  return ranks.text() + callsText(of, calls, launches) + waitsText(of, calls.waitTimes()) + age.text() +
         written.text() + "# EOF\n";
}

}  // namespace horing
