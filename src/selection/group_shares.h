#pragma once
// The part of an all-reduce's vector that each group reduces (ho_shares), where the links of groups differ in speed.
//
// M groups at rates b, D bytes, direct exchange between groups: a group that reduces the share w of the vector sends (1-w)D for the other
// groups to reduce and (M-1)wD of results, and receives as much: (1 + (M-2)w)D. No group waits for another if all take the same time T:
//
//   1 + (M-2)w = T b / D,  the sum of w = 1:  T = 2(M-1)D / (sum of b)
//
// A group with b < D/T would have a negative share. It reduces nothing: it sends its vector and receives the result, D each way in D/b, which
// no algorithm beats. The other groups divide the vector by the same rule. So an all-reduce takes max(D / least b, 2(M-1)D / (sum of b)),
// where a ring takes 2(M-1)D / (M least b).
#include <span>
#include <vector>

#include "schedule/shares.h"

namespace horing {

// Rates are in any one unit and above 0. Empty if they are equal, or there are fewer than three groups: then equal shares are as good.
Shares sharesByRate(std::span<const double> rates);

// The groups from the fastest to the slowest; empty if the rates are equal.
std::vector<int32_t> groupsBySpeed(std::span<const double> rates);

// Measured rates: those of at least 1/1.2 of the largest count as the largest. A smaller difference is noise, or no reason for other shares.
std::vector<double> withoutNoise(std::span<const double> rates);

// Rates without noise.
bool differ(std::span<const double> rates);
// Whether some group's measured rate, compared with the fastest group's, is 1.2 times as large as in the rates that a plan follows, or less
// by this factor. As many groups in both.
bool haveChanged(std::span<const double> followed, std::span<const double> measured);

}  // namespace horing
