#pragma once
// Windows in memory of GPUs. Ranks whose kernels reach each other's memory open each other's parts (cuda/ipc.h), and a put is a copy by the
// GPU of the rank that puts, in its stream; only the signal takes the way of other messages.
//
// The driver lets nobody free memory that another process has open, so each part has a count of the processes that do, in memory of the host
// that they share, and there its rank also says that its window has ended, after which nobody may put into it. Nor may memory be closed while
// a copy is on its way there, or while a stream waits for the thread that closes it.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "comm/messages/window_handles.h"
#include "cuda/device.h"

namespace horing {

// What a rank has open for one window, and what it shares.
class OpenedParts;

// Those of one rank. Others may use a window only while they have it from keep(); only this object closes it. Any thread, but closing, and
// waiting: when no copy is under way, on a thread that no stream waits for, and which is that of isOpen().
class GpuWindows {
 public:
  void keep(std::shared_ptr<OpenedParts> parts);
  // Whether this rank has the part of `rank` open. False: it was closed, since the window has ended there.
  static bool isOpen(const PartsOnGpus& parts, int rank);
  // Whether something is kept that nobody uses any more, or was closed and not awaited yet.
  bool hasUnused() const;
  bool hasUnawaited() const;
  // Tells other processes what nobody uses any more, so that they close this rank's parts.
  void tellUnused();
  // Closes that, or all.
  void closeUnused();
  void closeAll();
  // Waits for other processes to close this rank's parts of what was closed, for each window once, until the deadline or until `ends`.
  // Meanwhile closes the parts of ranks on which a window has ended, since they wait in turn. False: the deadline has passed.
  bool awaitOthers(const Deadline& deadline, const std::function<bool()>& ends);
  // Never closes any: copies may still be under way.
  void leak();

 private:
  using Windows = std::vector<std::shared_ptr<OpenedParts>>;
  bool haveOthersClosed();

  mutable std::mutex mutex_;
  Windows kept_;
  Windows closed_;   // perhaps still open elsewhere
  Windows awaited_;  // in vain, until closeAll()
};

// A rank's part, in memory of its GPU, and the bytes of all ranks' parts.
struct OwnGpuPart {
  std::shared_ptr<const CudaDevice> device;
  std::byte* memory;
  std::span<const uint64_t> bytes;
};
// Opens the parts of all ranks. Collective. The same on all ranks: empty if some rank cannot open another's; the log says why. Once all ranks
// share theirs, asks `bind` for what keeps the window. Errors: the control plane's.
Result<PartsOnGpus> openPartsOnGpus(Communicator& communicator, const OwnGpuPart& mine,
                                    const std::function<Result<GpuWindows*>()>& bind);

}  // namespace horing
