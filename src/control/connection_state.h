#pragma once
// The states of a rank's control connection, and the transition for each event. No I/O, no clock.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace horing {

enum class ConnectionState : uint8_t {
  kUp,
  kBroken,     // the rank reconnects
  kReturning,  // connected again, waiting for the rendezvous' answer
  kClosed,     // the rendezvous has closed and sends nothing more
  kLost,       // lost for good; it is not replaced
};
inline constexpr size_t kConnectionStates = 5;

enum class ConnectionEvent : uint8_t {
  kBroke,      // a failure after which the rank may reconnect
  kConnected,  // reconnected, and the Return message is sent
  kTakenBack,  // the rendezvous has answered with Returned
  kClosing,    // the rendezvous has sent Closing
  kEnded,      // ended for good
};
inline constexpr size_t kConnectionEvents = 5;

// Nothing: the event cannot happen in that state unless the rendezvous violates the protocol.
constexpr std::optional<ConnectionState> nextState(ConnectionState state, ConnectionEvent event) {
  using enum ConnectionState;
  constexpr std::optional<ConnectionState> kNever;
  constexpr std::array<std::array<std::optional<ConnectionState>, kConnectionEvents>, kConnectionStates>
      kTable = {{
          // kBroke, kConnected, kTakenBack, kClosing, kEnded
          {kBroken, kNever, kNever, kClosed, kLost},     // kUp
          {kNever, kReturning, kNever, kClosed, kLost},  // kBroken
          {kBroken, kNever, kUp, kClosed, kLost},        // kReturning
          {kNever, kNever, kNever, kClosed, kClosed},    // kClosed
          {kNever, kNever, kNever, kLost, kLost},        // kLost
      }};
  return kTable[static_cast<size_t>(state)][static_cast<size_t>(event)];
}

// The rank is reconnecting: messages are kept until it has.
constexpr bool isAway(ConnectionState state) {
  return state == ConnectionState::kBroken || state == ConnectionState::kReturning;
}
// Nothing more can be received or sent.
constexpr bool isFinished(ConnectionState state) {
  return state == ConnectionState::kClosed || state == ConnectionState::kLost;
}

}  // namespace horing
