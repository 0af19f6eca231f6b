#include "comm/tuning/group_rates.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/tuning/calibration.h"

namespace horing {

namespace {

// Of a group in a meeting, in each direction; fewer where these take longer than kMeetingUs.
constexpr size_t kMostMeetingBytes = 512 << 10;
constexpr size_t kLeastMeetingBytes = 64 << 10;
constexpr double kMeetingUs = 20'000;         // of the slowest pair
constexpr double kMostMeasuringUs = 150'000;  // after so long a large job begins no further round
constexpr int kMostExchanges = 16;
constexpr size_t kFirstMeetingBytes = 8;

class RateMeasurement {
 public:
  RateMeasurement(Communicator& communicator, int64_t timeout_ms)
      : communicator_(communicator),
        // Before the ranks that wait at the rendezvous give up, so that the rank that is waited for is named, and not its partner, too.
        meeting_timeout_ms_(timeout_ms / 2),
        map_(communicator.membership().placement().map()),
        rank_(communicator.membership().rank()),
        rails_(static_cast<size_t>(map_.smallestGroup())),
        output_(kMostMeetingBytes / rails_),
        input_(output_.size()) {}

  Result<GroupRates> run();

 private:
  int peerIn(int round) const;
  Result<double> meet(int peer);
  Status exchange(int peer, size_t bytes);
  Result<std::vector<double>> sumsOfGroups(double mine);
  double microsecondsSince(int64_t begun) const { return static_cast<double>(clock_.nowNs() - begun) / 1000; }

  Communicator& communicator_;
  const int64_t meeting_timeout_ms_;
  const GroupMap& map_;
  const int rank_;
  const size_t rails_;
  std::vector<std::byte> output_, input_;
  SteadyClock clock_;
};

// The member of the other group with the same local index. Ranks of larger groups that have no counterpart take no part.
int RateMeasurement::peerIn(int round) const {
  const int partner = partnerOf(map_.groupOf(rank_), map_.groups(), round);
  const int local = map_.localIndexOf(rank_);
  if (partner < 0 || local >= map_.smallestGroup()) return -1;
  return map_.members(partner)[static_cast<size_t>(local)];
}

Status RateMeasurement::exchange(int peer, size_t bytes) {
  const std::array<Transfer, 2> both{
      Transfer{.kind = Transfer::Receive{input_.data()}, .peer = peer, .bytes = bytes},
      Transfer{.kind = Transfer::Send{output_.data()}, .peer = peer, .bytes = bytes}};
  return communicator_.messages().exchangeForMeasurement(both, meeting_timeout_ms_);
}

// Bytes per microsecond of this rank; 0 without a peer. The first exchange makes the link, the second tells what lasts long enough. The end
// that begins late finds data that have arrived, so the time of the other end counts.
Result<double> RateMeasurement::meet(int peer) {
  const auto timed = [&](size_t bytes, int times) -> Result<double> {
    const int64_t begun = clock_.nowNs();
    for (int i = 0; peer >= 0 && i < times; ++i) HORING_TRY(exchange(peer, bytes));
    return std::max(microsecondsSince(begun), 1.0);
  };
  HORING_TRY(timed(kFirstMeetingBytes, 1).status());
  const size_t least = kLeastMeetingBytes / rails_;
  HORING_ASSIGN(const double least_us, timed(least, 1));
  HORING_ASSIGN(const double slowest_us, mostOfAll(communicator_, least_us));
  const double wanted = kMeetingUs / slowest_us;  // so often the least
  const double larger = std::clamp(wanted, 1.0, static_cast<double>(kMostMeetingBytes / kLeastMeetingBytes));
  const auto bytes = static_cast<size_t>(static_cast<double>(least) * larger);
  const int times = static_cast<int>(std::clamp(wanted / larger, 1.0, double{kMostExchanges}));
  HORING_ASSIGN(const double us, timed(bytes, times));
  HORING_ASSIGN(const std::vector<double> all_us, numbersOfAll(communicator_, us));
  if (peer < 0) return 0;
  return static_cast<double>(bytes) * times / std::max(us, all_us[static_cast<size_t>(peer)]);
}

Result<std::vector<double>> RateMeasurement::sumsOfGroups(double mine) {
  HORING_ASSIGN(const std::vector<double> all, numbersOfAll(communicator_, mine));
  std::vector<double> rates(static_cast<size_t>(map_.groups()));
  for (int rank = 0; rank < map_.ranks(); ++rank)
    rates[static_cast<size_t>(map_.groupOf(rank))] += all[static_cast<size_t>(rank)];
  return rates;
}

Result<GroupRates> RateMeasurement::run() {
  if (map_.groups() < 3) return GroupRates();
  const int64_t begun = clock_.nowNs();
  double best = 0;
  for (int meeting = 0; meeting < kMostMeetings; ++meeting) {
    HORING_ASSIGN(const double rate, meet(peerIn(roundOf(meeting, map_.groups()))));
    best = std::max(best, rate);
    HORING_ASSIGN(const double spent_us, mostOfAll(communicator_, microsecondsSince(begun)));
    if (spent_us > kMostMeasuringUs && meeting + 1 >= kLeastMeetings) break;
  }
  GroupRates measured;
  HORING_ASSIGN(measured.by_group, sumsOfGroups(best));
  HORING_ASSIGN(const double took_us, mostOfAll(communicator_, microsecondsSince(begun)));
  measured.took_ns = 1000 * took_us;
  return measured;
}

}  // namespace

int roundOf(int meeting, int groups) {
  constexpr std::array<int, kMostMeetings> kPlaces{0, 2, 4, 1, 3, 5};
  const int all = groups - 1 + groups % 2;
  return kPlaces[static_cast<size_t>(meeting)] * std::max(all, kMostMeetings) / kMostMeetings % all;
}

// All but the last stand on a circle and meet across it; an odd one out meets the last.
int partnerOf(int group, int groups, int round) {
  const int circle = groups - 1 + groups % 2;
  if (group == circle) return round * ((circle + 1) / 2) % circle;
  const int partner = (round - group + circle) % circle;
  if (partner != group) return partner;
  return groups % 2 == 0 ? circle : -1;
}

std::vector<double> ratesOfGroups(std::span<const double> of_ranks, const GroupMap& map) {
  std::vector<double> rates;
  for (int group = 0; group < map.groups(); ++group) {
    const auto rateOf = [&](int rank) { return of_ranks[static_cast<size_t>(rank)]; };
    const std::span<const int> members = map.members(group);
    rates.push_back(rateOf(members[0]));
    if (std::any_of(members.begin(), members.end(), [&](int rank) { return rateOf(rank) != rates.back(); }))
      return {};
  }
  return rates;
}

std::string ratesText(std::span<const double> rates) {
  const double most = *std::max_element(rates.begin(), rates.end());
  std::string text;
  for (const double rate : rates) text += formatString(" %.0f %%", 100 * rate / most);
  return text;
}

Result<GroupRates> measureGroupRates(Communicator& communicator, int64_t timeout_ms) {
  return RateMeasurement(communicator, timeout_ms).run();
}

}  // namespace horing
