#include "base/proof.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace horing {

namespace {

ProofProgress lost(int error_number) {
  if (error_number == 0)
    return {ProofState::kLost, makeStatus(Code::kRemoteError, "the connection was closed by the other end")};
  return {ProofState::kLost, systemError(error_number, "the connection broke"), error_number};
}

// Empties the handshake's pending bytes into the socket. kProven here means: all sent.
ProofProgress sendPending(int fd, Handshake& handshake) {
  while (!handshake.pending().empty()) {
    const ssize_t sent = ::send(fd, handshake.pending().data(), handshake.pending().size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      handshake.sent(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      return {};
    } else if (errno != EINTR) {
      return lost(errno);
    }
  }
  return {ProofState::kProven, {}};
}

}  // namespace

ProofProgress readExactly(int fd, std::span<std::byte> out, size_t& have) {
  while (have < out.size()) {
    const ssize_t got = ::recv(fd, out.data() + have, out.size() - have, 0);
    if (got > 0) {
      have += static_cast<size_t>(got);
    } else if (got == 0) {
      return lost(0);
    } else if (errno == EAGAIN) {
      return {};
    } else if (errno != EINTR) {
      return lost(errno);
    }
  }
  return {ProofState::kProven, {}};
}

ProofProgress driveProof(int fd, Handshake& handshake) {
  while (!handshake.done()) {
    if (const ProofProgress sending = sendPending(fd, handshake); sending.state == ProofState::kLost)
      return sending;
    if (handshake.done() || handshake.wanted() == 0) break;
    std::array<std::byte, 1024> buffer;
    size_t have = 0;
    const size_t most = std::min(buffer.size(), handshake.wanted());
    const ProofProgress reading = readExactly(fd, std::span(buffer).first(most), have);
    if (have > 0) {
      if (const Result<size_t> fed = handshake.feed(std::span(buffer).first(have)); !fed.ok()) {
        sendPending(fd, handshake);  // a courtesy: our version, to a peer of another
        return {ProofState::kRefused, fed.status()};
      }
    }
    if (reading.state != ProofState::kProven) return reading;
  }
  return {handshake.done() ? ProofState::kProven : ProofState::kUnderWay, {}};
}

}  // namespace horing
