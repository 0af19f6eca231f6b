#pragma once
// How fast the links of each group to other groups are, compared with each other.
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace horing {

class Communicator;
class GroupMap;

// The same on all ranks.
struct GroupRates {
  std::vector<double> by_group;  // bytes per microsecond; empty for fewer than three groups
  double took_ns = 0;            // to measure them, the longest of all ranks
};
// Of a measurement over fast links.
inline constexpr double kUsualMeasuringNs = 200e6;

// Collective; nothing else may run on the communicator. Groups meet in pairs, all at once, several times with different partners: a pair is
// as fast as its slower group, so the fastest meeting counts. Takes some 0.2 s from 100 Mbit/s on, and longer over slower links. Messages of
// the program are not disturbed (Messages::exchangeForMeasurement). `timeout_ms`: of each of its exchanges. Errors: the communicator's.
Result<GroupRates> measureGroupRates(Communicator& communicator, int64_t timeout_ms);

// By group; empty unless the members of each group have one rate.
std::vector<double> ratesOfGroups(std::span<const double> of_ranks, const GroupMap& map);

// " 100 % 98 % 40 %", by group; 100 % is the fastest.
std::string ratesText(std::span<const double> rates);

// A measurement has so many meetings, fewer over slow links.
inline constexpr int kMostMeetings = 6, kLeastMeetings = 3;
// The round of pairs of a meeting. Spread over all rounds, and those of the fewest meetings, too: slow groups are often numbered one after
// the other, and neighbours of a third of all groups that are slow do not meet these only.
int roundOf(int meeting, int groups);

// The partner of `group` in a round of pairs, in which no group is in two pairs; -1: none. In `groups` rounds (groups - 1 if their number is
// even) each meets every other.
int partnerOf(int group, int groups, int round);

}  // namespace horing
