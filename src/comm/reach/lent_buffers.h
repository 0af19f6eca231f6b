#pragma once
// The buffers that a call lends to transports (RegionAccess::lend), so that messages are sent from them and received into them without a
// copy.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/links/connector.h"
#include "comm/reach/registrations.h"
#include "engine/host/transfer.h"
#include "transport/memory/segment_list.h"

namespace horing {

// For one call at a time of a communicator, or several calls with tickets. All arguments of the constructor must outlive it.
class LentBuffers {
 public:
  // `segments`: memory of horingMemAlloc; may be null.
  LentBuffers(Connector& connector, const SegmentList* segments, const Registrations& registrations)
      : connector_(connector), segments_(segments), registrations_(registrations) {}
  LentBuffers(const LentBuffers&) = delete;
  LentBuffers& operator=(const LentBuffers&) = delete;

  // Lends the memory around the beginning of a buffer, if it is registered or from horingMemAlloc; `buffer` may be null. `ticket`: the
  // call's, if several are in flight.
  void lendRegistered(uint32_t transports, const void* buffer, uint64_t ticket = 0);
  // Lends any buffer that messages are received into and forwarded from; beyond kMostLent buffers it does nothing.
  void lendOrdinary(uint32_t transports, void* buffer, size_t bytes, uint64_t ticket = 0);
  // Lends the memory of a message: registered memory, or any host memory that is received into.
  void lendTransfer(uint32_t transports, const Transfer& transfer, uint64_t ticket = 0);
  // Lends memory that other ranks put into, until its ticket is taken back.
  void lendWindow(uint32_t transports, std::byte* memory, size_t bytes, uint64_t ticket) {
    lendRegistered(transports, memory, ticket);
    lendOrdinary(transports, memory, bytes, ticket);
  }
  // Takes the buffers back when the call has ended. `failed`: messages in flight must not access them any more.
  void takeBack(bool failed, uint64_t ticket);
  // The same for all calls.
  void takeBack(bool failed);

 private:
  struct Lent {
    Region region;
    uint32_t transports;
    uint64_t ticket;
  };
  void lend(const Lent& lent);
  void takeBack(bool failed, const Lent& lent);

  Connector& connector_;
  const SegmentList* const segments_;
  const Registrations& registrations_;
  std::vector<Lent> lent_;
  uint64_t ordinary_ = 0;  // number of ordinary regions so far
};

}  // namespace horing
