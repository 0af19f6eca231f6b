#include "launch/pmi1.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace horing {

namespace {

constexpr size_t kMaxLine = 4096;
constexpr size_t kMaxText = 1000;
constexpr const char* kKey = "horing-unique-id";

// One request, one answer, each a line "cmd=name key=value ...".
class Pmi1Client {
 public:
  Pmi1Client(int fd, Deadline deadline) : fd_(fd), deadline_(deadline) {}

  // Sends a request and returns the answer, which must be of kind `expected` and not a failure.
  Result<std::string> ask(const std::string& request, const char* expected) {
    HORING_TRY(write(request + "\n"));
    HORING_ASSIGN(std::string answer, readLine());
    const std::string rc = field(answer, "rc");
    if (field(answer, "cmd") != expected || (!rc.empty() && rc != "0"))
      return makeStatus(Code::kRemoteError, "mpiexec answered \"%s\" to \"%s\" (PMI-1)", answer.c_str(),
                        request.substr(0, request.find(" value=")).c_str());
    return answer;
  }

  static std::string field(const std::string& line, const std::string& name) {
    const std::string start = name + "=";
    for (size_t at = 0; at < line.size();) {
      const size_t end = std::min(line.find(' ', at), line.size());
      if (line.compare(at, start.size(), start) == 0 && at + start.size() <= end)
        return line.substr(at + start.size(), end - at - start.size());
      at = end + 1;
    }
    return "";
  }

 private:
  Status waitFor(short events) {
    pollfd item{fd_, events, 0};
    while (true) {
      const int ready = ::poll(&item, 1, deadline_.remainingMs());
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return systemError(errno, "waiting for mpiexec (PMI_FD=%d)", fd_);
      if (deadline_.passed())
        return makeStatus(Code::kTimeout,
                          "mpiexec does not answer (PMI-1): has every rank reached this point?");
    }
  }

  Status write(const std::string& line) {
    for (size_t sent = 0; sent < line.size();) {
      HORING_TRY(waitFor(POLLOUT));
      const ssize_t wrote = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (wrote < 0 && errno == EPIPE)
        return makeStatus(
            Code::kInvalidUsage,
            "mpiexec no longer listens to this rank: PMI-1 serves a process once. Hand the unique ID of a "
            "further communicator on through the first");
      if (wrote < 0) return systemError(errno, "writing to mpiexec (PMI_FD=%d)", fd_);
      sent += static_cast<size_t>(wrote);
    }
    return {};
  }

  Result<std::string> readLine() {
    size_t end = 0;
    while ((end = buffer_.find('\n')) == std::string::npos) {
      if (buffer_.size() > kMaxLine)
        return makeStatus(Code::kRemoteError, "mpiexec sent a line without an end (PMI-1)");
      HORING_TRY(waitFor(POLLIN));
      char piece[512];
      const ssize_t got = ::read(fd_, piece, sizeof piece);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got < 0) return systemError(errno, "reading from mpiexec (PMI_FD=%d)", fd_);
      if (got == 0)
        return makeStatus(Code::kRemoteError, "mpiexec closed its connection to this rank (PMI-1)");
      buffer_.append(piece, static_cast<size_t>(got));
    }
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

  int fd_;
  Deadline deadline_;
  std::string buffer_;
};

}  // namespace

Result<std::string> broadcastOverPmi1(int fd, int rank, const std::string& text, Deadline deadline) {
  if (text.size() > kMaxText)
    return makeStatus(Code::kInternalError, "%zu characters are too many for PMI-1", text.size());
  Pmi1Client client(fd, deadline);
  HORING_TRY(client.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init").status());
  HORING_ASSIGN(const std::string named, client.ask("cmd=get_my_kvsname", "my_kvsname"));
  const std::string where = "kvsname=" + Pmi1Client::field(named, "kvsname") + " key=" + kKey;
  if (rank == 0) HORING_TRY(client.ask("cmd=put " + where + " value=" + text, "put_result").status());
  HORING_TRY(client.ask("cmd=barrier_in", "barrier_out").status());
  HORING_ASSIGN(const std::string got, client.ask("cmd=get " + where, "get_result"));
  HORING_TRY(client.ask("cmd=finalize", "finalize_ack").status());
  return Pmi1Client::field(got, "value");
}

}  // namespace horing
