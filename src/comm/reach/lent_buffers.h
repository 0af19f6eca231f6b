#pragma once
// What a call lends to transports (Transport::lend), so that messages are sent from its buffers, and land in them, without a copy.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/links/connector.h"
#include "comm/reach/registrations.h"
#include "engine/host/transfer.h"
#include "transport/memory/segment_list.h"

namespace horing {

// Of one communicator, for one call at a time, or several that have tickets. All that it is made of must outlive it.
class LentBuffers {
 public:
  // `segments`: memory of horingMemAlloc; may be null.
  LentBuffers(Connector& connector, const SegmentList* segments, const Registrations& registrations)
      : connector_(connector), segments_(segments), registrations_(registrations) {}
  LentBuffers(const LentBuffers&) = delete;
  LentBuffers& operator=(const LentBuffers&) = delete;

  // The memory around the beginning of a buffer, if it is registered, or horingMemAlloc made it; a buffer may be null. `ticket`: of the
  // call, where several are under way.
  void lendRegistered(uint32_t transports, const void* buffer, uint64_t ticket = 0);
  // A buffer where messages land, and from where they are sent on, whoever made it; but for some of very many.
  void lendOrdinary(uint32_t transports, void* buffer, size_t bytes, uint64_t ticket = 0);
  // The memory of a message, registered or, where it is received into the host's, any.
  void lendTransfer(uint32_t transports, const Transfer& transfer, uint64_t ticket = 0);
  // Once the call has ended. `failed`: nothing may be read or written any more by what is still under way.
  void takeBack(bool failed, uint64_t ticket);
  // The same of all calls.
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
  uint64_t ordinary_ = 0;  // regions so far that nobody had registered
};

}  // namespace horing
