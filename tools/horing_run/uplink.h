#pragma once
// A link that several emulated nodes share, as below one switch of a larger network.

namespace horing::run {

struct Uplink {
  // These and all nodes between them. What they exchange with other nodes passes the link.
  int first_node = 0;
  int last_node = 0;
  // In each direction, on each rail; greater than 0.
  int rate_mbit = 0;
};

}  // namespace horing::run
