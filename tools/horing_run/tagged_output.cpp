#include "horing_run/tagged_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "horing_run/process.h"

namespace horing::run {

namespace {
// A line longer than this is cut in pieces: a rank that never ends its line must not use up the memory.
constexpr size_t kMaxLineBytes = 64 * 1024;
}  // namespace

Result<Fd> TaggedOutput::open(int rank, int target) {
  HORING_ASSIGN(Pipe pipe, makePipe());
  fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK);
  Stream stream;
  stream.rank = rank;
  stream.target = target;
  stream.reader = std::move(pipe.reader);
  streams_.push_back(std::move(stream));
  return std::move(pipe.writer);
}

void TaggedOutput::addTo(std::vector<pollfd>& descriptors) const {
  for (const Stream& stream : streams_)
    if (stream.reader.valid()) descriptors.push_back({stream.reader.get(), POLLIN, 0});
}

void TaggedOutput::forward() {
  for (Stream& stream : streams_) forwardStream(stream);
}

void TaggedOutput::finish() {
  forward();
  for (Stream& stream : streams_) {
    if (!stream.unfinished.empty()) writeLine(stream, stream.unfinished + "\n");
    stream.unfinished.clear();
  }
}

void TaggedOutput::forwardStream(Stream& stream) {
  char buffer[16384];
  while (stream.reader.valid()) {
    const ssize_t n = read(stream.reader.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      stream.reader.reset();
      return;
    }
    stream.unfinished.append(buffer, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end = stream.unfinished.find('\n'); end != std::string::npos;
         end = stream.unfinished.find('\n', begin)) {
      writeLine(stream, stream.unfinished.substr(begin, end + 1 - begin));
      begin = end + 1;
    }
    stream.unfinished.erase(0, begin);
    if (stream.unfinished.size() < kMaxLineBytes) continue;
    writeLine(stream, stream.unfinished + "\n");
    stream.unfinished.clear();
  }
}

void TaggedOutput::writeLine(const Stream& stream, const std::string& line) {
  // One write per line, so that lines of a shared terminal or file stay whole.
  const std::string text = "[" + std::to_string(stream.rank) + "] " + line;
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(stream.target, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the reader is gone: the ranks continue
    written += static_cast<size_t>(n);
  }
}

}  // namespace horing::run
