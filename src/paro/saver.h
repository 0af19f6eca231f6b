#pragma once
// Writes checkpoints: at once, or by a thread while training goes on.
#include <memory>
#include <string>
#include <vector>

#include "base/service_thread.h"
#include "base/status.h"
#include "horing/paro.h"
#include "paro/checkpoint_format.h"
#include "paro/memory.h"

namespace horing::paro {

// What one rank saves.
struct Snapshot {
  std::string folder;
  uint64_t step = 0;
  int state_values = 0;
  std::vector<horingParoParam_t> params;
  Names names;
  std::vector<Piece> pieces;  // this rank's
};

// Collective. On success the checkpoint is complete, and the previous one gone.
Status writeCheckpoint(horingComm_t comm, Snapshot& snapshot);
// Collective. As if a checkpoint without elements were written, which then is removed.
Status checkFolder(horingComm_t comm, const std::string& folder);

// Writes one checkpoint at a time on a thread, with a communicator of its own: training uses the given one meanwhile. A resource.
class Saver {
 public:
  // `backend`, where the pieces are, and `counter`, of the bytes of copies, must outlive it.
  Saver(horingComm_t comm, Backend& backend, uint64_t* counter)
      : given_(comm), backend_(backend), copies_on_(makeHostBackend({})), counter_(counter) {}
  // Waits for the thread.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Refuses `call` while a save is under way.
  Status mayCall(const char* call) const;
  // Collective. Writes the checkpoint.
  Status write(Snapshot snapshot);
  // Collective. Copies the pieces, which may change afterwards.
  Status start(Snapshot snapshot);
  // The result of the save that was started last; success if there is none. Local.
  Status wait();

 private:
  // Collective.
  Status copyPieces();
  Status copyMine();
  void drop();

  const horingComm_t given_;
  Backend& backend_;
  const std::unique_ptr<Backend> copies_on_;  // the host
  uint64_t* const counter_;
  horingComm_t comm_ = nullptr;  // of all ranks, in the same order
  Snapshot snapshot_;
  std::vector<Memory> copies_;
  bool is_under_way_ = false;  // started, and not waited for
  Status result_;              // the thread's, to be read when it has ended
  ServiceThread thread_;
};

}  // namespace horing::paro
