#pragma once
// Driving the handshake of base/auth.h over a non-blocking socket, for control and for data connections.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/auth.h"
#include "base/status.h"

namespace horing {

enum class ProofState : uint8_t {
  kUnderWay,  // waiting for the socket
  kProven,
  kLost,     // the connection ended first: another try may succeed
  kRefused,  // the other end does not belong to the job: another try is useless
};

struct ProofProgress {
  ProofState state = ProofState::kUnderWay;
  Status why;     // of kLost and kRefused
  int error = 0;  // of kLost: the errno; 0: the other end closed the connection
};

// Sends and reads as much as possible without waiting; reads nothing beyond the handshake. After a refusal it sends this end's
// version to the peer.
ProofProgress driveProof(int fd, Handshake& handshake);

// Reads up to out.size() bytes, and adds the number of bytes read to `have`.
ProofProgress readExactly(int fd, std::span<std::byte> out, size_t& have);

}  // namespace horing
