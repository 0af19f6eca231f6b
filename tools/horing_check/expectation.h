#pragma once
// Nodes of different kinds on purpose: what rate each is expected to reach. Pure.
#include <string>
#include <vector>

#include "base/status.h"

namespace horing::check {

// A value. All nodes are of one kind unless it is parsed from a text.
class Expectation {
 public:
  // "node[0-3]=400,node[4-7,9]=200": names as Slurm writes them, and Mbit/s or shares, since only their relation counts. Between entries is a
  // comma or white space. Errors: kInvalidArgument: there is no entry, or a wrong one, which is quoted; numbers are 1e-6 to 1e12.
  static Result<Expectation> parse(const std::string& text);

  // By node, as a part of the fastest one's rate; empty: all are of one kind. A name may go on after a slash (Nodes::names). Entries for
  // nodes that do not take part are ignored. Errors: kInvalidUsage if a node has no rate, or two.
  Result<std::vector<double>> sharesOf(const std::vector<std::string>& names) const;

 private:
  struct Numbers {
    int first, last;
    size_t width;  // of a number with leading zeros; 0: it has none
  };
  // prefix[numbers]suffix, or a whole name.
  struct Kind {
    std::string prefix, suffix;
    std::vector<Numbers> numbers;
    double rate;

    bool holds(const std::string& host) const;
  };
  static Result<Kind> parseKind(const std::string& entry);
  static Result<Numbers> parseNumbers(const std::string& text);

  std::vector<Kind> kinds_;
};

}  // namespace horing::check
