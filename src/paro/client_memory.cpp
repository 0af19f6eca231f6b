// Memory that a client allocates when training shows that it is needed.
#include <algorithm>
#include <utility>

#include "paro/client.h"

namespace horing::paro {

Status Client::settle() {
  for (const Transfers* const transfers : {&param_transfers_, &grad_transfers_}) {
    Completion all;
    HORING_TRY(mark(*transfers, all));
    HORING_TRY(await(all));
  }
  return failWith(backend_->finish());
}

Status Client::whileIdle(const std::function<Status()>& body) {
  if (backend_->isHost()) return body();
  HORING_TRY(failWith(agree(comm_, settle())));
  return agree(comm_, body());
}

Result<Memory> Client::allocateWhileIdle(const char* what, size_t bytes, uint64_t* counter) {
  Memory memory;
  const Status allocated = whileIdle([&]() -> Status {
    HORING_ASSIGN(memory, Memory::allocate(*backend_, what, bytes, counter));
    return {};
  });
  if (allocated.ok()) return memory;
  // Where another rank got none.
  (void)freeWhileIdle(std::move(memory));
  return allocated;
}

Status Client::freeWhileIdle(Memory memory) {
  return whileIdle([&] {
    memory = Memory();
    return Status();
  });
}

// The first operation of a communicator on a GPU allocates memory, so each has it before training begins.
Status Client::useCommunicators() {
  if (backend_->isHost()) return {};
  uint64_t bytes = 0;
  HORING_ASSIGN(Memory zero, allocateWhileIdle("a first sum", sizeof(float), &bytes));
  for (const horingComm_t comm : grid_.communicators())
    HORING_TRY(whileIdle([&] { return param_transfers_.use(comm, reinterpret_cast<float*>(zero.data())); }));
  return freeWhileIdle(std::move(zero));
}

Result<Memory> Client::allocateGradBuffer() {
  return allocateWhileIdle("gradients on their way", list_.longestGradBytes(), &usage_.gradBufferBytes);
}

Result<Memory> Client::allocateGathered(size_t bytes) {
  return allocateWhileIdle("gathered parameters", bytes, &usage_.gatheredBytes);
}

Result<Memory> Client::takeGathered(size_t bytes) {
  // Of one size on a GPU, where a longer one could take the place of another only while no rank does anything.
  if (!backend_->isHost()) bytes = list_.longestBytes();
  auto best = spare_.end();
  for (auto each = spare_.begin(); each != spare_.end(); ++each)
    if (each->bytes() >= bytes && (best == spare_.end() || each->bytes() < best->bytes())) best = each;
  if (best == spare_.end()) {
    if (!spare_.empty()) spare_.pop_back();
    return allocateGathered(bytes);
  }
  Memory found = std::move(*best);
  spare_.erase(best);
  return found;
}

}  // namespace horing::paro
