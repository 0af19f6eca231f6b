#pragma once
// Output of many ranks, line by line, each line beginning with the rank it comes from: "[3] text".
#include <poll.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace horing::run {

class TaggedOutput {
 public:
  // A pipe for `rank` whose content goes to the descriptor `target` (1 or 2). Returns the end to write to,
  // which the caller passes on to the rank and then closes.
  Result<Fd> open(int rank, int target);

  // Adds what to wait for to `descriptors`.
  void addTo(std::vector<pollfd>& descriptors) const;
  // Passes on what has arrived, never waiting for more.
  void forward();
  // As forward(), and whatever is left of lines without an end.
  void finish();

 private:
  struct Stream {
    int rank = 0;
    int target = 1;
    Fd reader;
    std::string unfinished;
  };
  static void forwardStream(Stream& stream);
  static void writeLine(const Stream& stream, const std::string& line);

  std::vector<Stream> streams_;
};

}  // namespace horing::run
