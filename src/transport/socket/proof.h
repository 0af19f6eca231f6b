#pragma once
// Driving base/auth.h's handshake over a non-blocking socket.
#include <cstddef>

#include "base/auth.h"
#include "base/status.h"

namespace horing::tcp {

enum class ProofState : uint8_t {
  kUnderWay,  // waiting for the socket
  kProven,
  kLost,     // the connection ended first: worth another try
  kRefused,  // the other end is not one of ours: not worth one
};

struct ProofProgress {
  ProofState state = ProofState::kUnderWay;
  Status why;  // of kLost and kRefused
};

// Sends and reads what can be without waiting; reads nothing beyond the handshake.
ProofProgress driveProof(int fd, Handshake& handshake);

// Reads up to out.size() bytes; how many came is added to `have`.
ProofProgress readExactly(int fd, std::span<std::byte> out, size_t& have);

}  // namespace horing::tcp
