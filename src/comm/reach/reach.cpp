#include "comm/reach/reach.h"

#include "cuda/adapter_memory.h"
#include "schedule/postcondition.h"

namespace horing {

namespace {

// Over TCP, data that the peer has not acknowledged when a call ends is copied then. So a rank that only sends lends its vector only if it
// is large.
constexpr size_t kWorthSendingBytes = 4 << 20;

// Devices deregister memory of a freed segment.
class FreedSegments final : public SegmentList::Watcher {
 public:
  FreedSegments(SegmentList& segments, Connector& connector, std::function<bool()> is_forked_child)
      : segments_(segments), connector_(connector), is_forked_child_(std::move(is_forked_child)) {
    segments_.watch(*this);
  }
  ~FreedSegments() override {
    if (!is_forked_child_()) segments_.unwatch(*this);
  }
  FreedSegments(const FreedSegments&) = delete;
  FreedSegments& operator=(const FreedSegments&) = delete;
  void freed(uint64_t id) override {
    if (!is_forked_child_()) connector_.forget(id);
  }

 private:
  SegmentList& segments_;
  Connector& connector_;
  const std::function<bool()> is_forked_child_;
};

}  // namespace

bool onlyMoves(const Call& call) {
  return !contractOf(call.collective).folds() && !call.copier;
}

size_t bytesIn(ChunkSet set, const CallSpec& spec, int ranks) {
  return blocksIn(set, spec.collective, ranks) * spec.count * dataTypeBytes(spec.type);
}

Reach::Reach(Parts parts)
    : parts_(std::move(parts)),
      users_(BufferUsers::of(parts_.communicator)),
      lent_(parts_.connector, parts_.segments, registrations_) {
  Connector& connector = parts_.connector;
  if (parts_.segments && connector.usesLentMemory(connector.allTransports()))
    freed_segments_ = std::make_unique<FreedSegments>(*parts_.segments, connector, parts_.is_forked_child);
}

Result<void*> Reach::registerMemory(std::byte* memory, size_t bytes, const CudaDevice* gpu) {
  const Connector& connector = parts_.connector;
  const bool is_shared = parts_.segments && parts_.segments->find(memory, bytes);
  const uint32_t chosen = connector.chosenTransports();
  const bool is_used = gpu ? connector.usesGpuMemory(chosen) : is_shared || connector.usesLentMemory(chosen);
  if (!is_used) return static_cast<void*>(nullptr);
  if (!gpu) return registrations_.add(memory, bytes);
  Result<AdapterMemory> found = adapterMemory(*gpu, memory, bytes, AdapterWays::of(parts_.ib_gpu_memory));
  if (found.ok()) return registrations_.add(memory, bytes, found.take());
  parts_.log.info("comm", "memory of a GPU goes through the host's: %s", found.status().message().c_str());
  return static_cast<void*>(nullptr);
}

Status Reach::deregister(const void* handle) {
  HORING_ASSIGN(const uint64_t region, registrations_.remove(handle));
  parts_.connector.forget(region);
  return {};
}

bool Reach::movesInPlace(const Transfer& transfer) const {
  if (transfer.peer == parts_.rank || transfer.bytes < kInPlaceBytes) return false;
  const std::byte* const memory = transfer.memory();
  const std::optional<Region> region = registrations_.find(memory);
  if (!region || !region->ofGpu() || !region->contains(memory, transfer.bytes)) return false;
  const int transport = parts_.connector.choiceFor(transfer.peer);
  return transport >= 0 && parts_.connector.usesGpuMemory(1u << transport);
}

const char* Reach::transportTo(int peer) const {
  const int choice = parts_.connector.choiceFor(peer);
  return choice < 0 ? "" : parts_.connector.transports()[static_cast<size_t>(choice)]->name();
}

void Reach::lend(uint32_t transports, const HostOperation& operation, const Call& call) {
  if (!operation.movesInPlace()) return;
  lent_.lendRegistered(transports, call.input);
  lent_.lendRegistered(transports, call.output);
  const size_t bytes = operation.outputEnd();
  const bool is_callers = call.list == 0 && !call.copier;
  if (is_callers && (operation.lands() || bytes >= kWorthSendingBytes))
    lent_.lendOrdinary(transports, call.output, bytes);
}

void Reach::lend(uint32_t transports, std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers) lent_.lendTransfer(transports, transfer);
}

Result<ReachableBuffers> Reach::askPeers(const Call& call, int ranks, bool may_write, const Gather& gather) {
  const Contract contract = contractOf(call.collective);
  const size_t out_bytes = may_write ? bytesIn(contract.out, call, ranks) : 0;
  HORING_TRY(gather(peers_->offer({call.input, bytesIn(contract.in, call, ranks)}, {call.output, out_bytes},
                                  onlyMoves(call))));
  if (peers_->needsConfirmation()) HORING_TRY(gather(peers_->confirmation()));
  return peers_->agreed();
}

void Reach::cutOff(std::byte* output, size_t bytes) {
  if (const Status cut = parts_.segments->cutOff(output, bytes); !cut.ok())
    parts_.log.warn("comm", "%s", cut.message().c_str());
}

}  // namespace horing
