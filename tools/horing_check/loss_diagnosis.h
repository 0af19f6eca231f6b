#pragma once
// Finds the nodes and paths that lose packets, from the segments that senders had to send again. Pure, like diagnosis.h.
//
// A sample is lossy if its share of resent segments is far above the cluster's. Sides are judged by how many of their samples are lossy and
// not by how many segments are lost: a queue that overflowed once loses many at once, a bad cable a few in every sample.
#include <vector>

#include "horing_check/diagnosis.h"

namespace horing::check {

// Adds findings whose factor is the share of segments that were resent, to those of slow rates: few losses on a slow side are not reported,
// because queues overflow before a slow link.
void findLosses(const Figures& figures, std::vector<Finding>& findings);

}  // namespace horing::check
