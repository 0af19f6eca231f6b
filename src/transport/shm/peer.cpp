#include "transport/shm/peer.h"

namespace horing {

Result<ShmPeer> ShmPeer::open(const std::string& directory, const ShmAddress& here,
                              const ShmAddress& address) {
  if (address.boot_id != here.boot_id || address.device != here.device || address.inode != here.inode) {
    return makeStatus(Code::kInvalidArgument,
                      "rank %d, shm: rank %d is on another machine, or sees another directory than %s",
                      here.rank, address.rank, directory.c_str());
  }
  ShmPeer peer;
  peer.stem_ = address.stem.data();
  const std::string path = directory + "/" + peer.stem_;
  HORING_ASSIGN(const Fd file, openShmFile(path + ".rank"));
  if (!file.valid()) {
    return makeStatus(Code::kRemoteError, "rank %d, shm: rank %d has left, there is no %s.rank", here.rank,
                      address.rank, path.c_str());
  }
  HORING_ASSIGN(const uint64_t bytes, shmFileBytes(file.get(), path));
  if (bytes != kPresenceBytes) {
    return makeStatus(Code::kRemoteError, "rank %d, shm: %s.rank has %llu bytes: it is not of this version",
                      here.rank, path.c_str(), static_cast<unsigned long long>(bytes));
  }
  HORING_ASSIGN(peer.presence_, mapShmFile(file.get(), kPresenceBytes, path));
  // acquire: pairs with the release of the peer when it made the page.
  const bool is_made = peer.page().is_made.load(std::memory_order_acquire) == 1;
  if (!is_made || peer.page().nonce != address.nonce || peer.page().rank != address.rank) {
    return makeStatus(Code::kRemoteError,
                      "rank %d, shm: %s.rank is not that of the rank %d whose address was given", here.rank,
                      path.c_str(), address.rank);
  }
  HORING_ASSIGN(peer.bell_, ShmPeerBell::open(directory, address.bell_stem.data()));
  return peer;
}

bool ShmPeer::died() const {
  // acquire: pairs with the release at the end of the peer's transport, which comes before it gives up its
  // share in the bell.
  return bell_->isAbandoned() && departed().load(std::memory_order_acquire) == 0;
}

}  // namespace horing
