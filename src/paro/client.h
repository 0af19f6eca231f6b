#pragma once
// One rank's part of a sharded model: its data of each bucket, and the order of calls.
//
// Everything is in place: the optimizer's shard is a part of the block in which a bucket's gradients (parameters) are kept, since state is
// sharded at least as finely. So gradients are reduced, and parameters gathered, without copies.
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "paro/agreement.h"
#include "paro/backend.h"
#include "paro/bucket_list.h"
#include "paro/checkpoint_format.h"
#include "paro/grid.h"
#include "paro/matching.h"
#include "paro/memory.h"
#include "paro/saver.h"
#include "paro/transfers.h"

namespace horing::paro {

// Not thread-safe, not copyable or movable. paro.h documents each call.
class Client {
 public:
  // Collective. `refused`: the error of this rank's arguments, which all ranks then return.
  static Result<std::unique_ptr<Client>> create(horingComm_t comm, Description description,
                                                const Status& refused);
  ~Client();
  // Refuses the end of a client whose memory cannot be waited for now.
  Status mayEnd();

  horingParoInfo_t info() const;
  horingParoUsage_t usage() const;
  Result<horingParoPlace_t> place(size_t param) const;
  Result<horingParoBucket_t> bucketInfo(int bucket) const;

  struct Values {
    const void* data;
    size_t count;
    horingDataType_t type;
  };
  Status setParam(size_t param, const Values& values);
  Status gatherParams(int bucket);
  Status gatherMasters(int bucket);
  Result<const void*> param(size_t param);
  Status releaseParams(int bucket);

  Status openGrads(int bucket);
  Result<void*> grad(size_t param);
  Status reduceGrads(int bucket);
  Status reduceGradsOf(int bucket, std::span<const void* const> grads);
  Status discardGrads(int bucket);
  Status syncGrads();
  struct Norm {
    double norm;
    bool overflow;
  };
  Result<Norm> gradNorm();

  Result<horingParoShard_t> shard(int bucket);
  Result<horingParoShard_t> master(int bucket);
  Status syncParams();

  // Collective. load() gives the step that was passed to save().
  Status checkFolder(const std::string& folder);
  Status save(const std::string& folder, uint64_t step);
  Status startSave(const std::string& folder, uint64_t step);
  Status waitSave();  // local
  Result<uint64_t> load(const std::string& folder);
  struct Loaded {
    uint64_t step = 0;
    std::vector<bool> params;  // by parameter: whether the checkpoint has it
  };
  Result<Loaded> loadByName(const std::string& folder, bool strict);

 private:
  enum class Phase : uint8_t { kMicroSteps, kUpdate };

  // This rank's data of a bucket. Blocks are the blocks of the row's partitions; the memory of state is only the shard.
  struct Bucket {
    BucketLayout layout;
    Memory params;
    Memory grads;
    Memory master;  // empty unless layout.hasMaster()
    std::vector<Memory> state;
    Memory gathered;  // while gathered, unless `params` is that
    bool is_gathered = false;
    horingDataType_t gathered_type = horingFloat32;
    int reductions = 0;       // started since the last step
    bool has_grads = false;   // `grads` has values
    Completion params_ready;  // of `params` or `gathered`, whichever was moved last
    Completion grads_ready;
  };
  // Holds one micro-step's gradients of a bucket.
  struct GradBuffer {
    Memory memory;
    enum class Use : uint8_t { kFree, kOpen, kReducing } use = Use::kFree;
    int bucket = 0;
    Completion reduced;
  };
  Client(horingComm_t comm, Description description);
  Status openBackend();
  Status chooseStrategy();
  Status allocate();
  Status allocate(Bucket& bucket);
  Status useCommunicators();

  // What every call begins with.
  Status mayCall();
  Result<Bucket*> find(int bucket);
  Result<Bucket*> findTrainable(int bucket);
  Status checkParam(size_t param) const;
  Status failWith(const Status& status);
  // This rank's block of a bucket, the padding included.
  Range blockOf(const Bucket& bucket, horingParoPartition_t partition) const;
  // The shard's address in memory that holds a block of `partition`, of elements of that type.
  std::byte* shardIn(const Bucket& bucket, const Memory& memory, horingParoPartition_t partition,
                     horingDataType_t type) const;
  Status store(Bucket& bucket, Range range, const std::byte* values, horingDataType_t type);

  Status issue(Transfers& transfers, const Move& move, Bucket& bucket, std::byte* block,
               const std::byte* own = nullptr);
  // `completion` of all that was issued on `transfers`.
  Status mark(const Transfers& transfers, Completion& completion);
  // Issues the phase's moves on the blocks in `memory`, which holds a block of `partition`.
  Status issueSync(horingParoPhase_t phase, Transfers& transfers, Bucket& bucket, const Memory& memory);
  // Waits, or lets the stream of a GPU wait.
  Status await(const Completion& completion);
  // Rounds a bucket's master into its parameters, and starts to send these to the other ranks that keep them.
  Status publish(Bucket& bucket);
  Result<GradBuffer*> openBufferOf(int bucket);
  // The bucket, if it may get gradients of a micro-step now.
  Result<Bucket*> findOpenable(int bucket);
  // Refuses gradients of reduceGradsOf() that are of another bucket, or in memory that cannot be read.
  Status checkGrads(int bucket, const std::vector<size_t>& params, std::span<const void* const> grads) const;
  // Opens a buffer whose elements have any value.
  Result<GradBuffer*> openBuffer(int bucket);
  // Copies gradients, as reduceGradsOf() gets them, to the beginning of a bucket; zeros where there are none.
  Status copyGrads(const Bucket& bucket, std::span<const void* const> grads, std::byte* to) const;
  Status collectOldest();
  Status collectAll();
  // For moves for which Transfers::folds(): starts them, in one of the gradient buffers, which are free once all gradients are collected;
  // and ends the oldest.
  Status startFold(const Move& move, Bucket& bucket, std::byte* block);
  Status endOldestFold();
  // The bucket, if it may be gathered now.
  Result<Bucket*> findGatherable(int bucket);

  // Waits until nothing is under way here.
  Status settle();
  // Calls body(); with a GPU, when nothing is under way on any rank, and returns when all ranks have done it: a driver that allocates or
  // frees memory may wait for kernels, and these for a rank that waits in the driver, too. An error of one body is that of all ranks.
  Status whileIdle(const std::function<Status()>& body);
  Result<Memory> allocateWhileIdle(const char* what, size_t bytes, uint64_t* counter);
  Status freeWhileIdle(Memory memory);
  Result<Memory> allocateGradBuffer();
  Result<Memory> allocateGathered(size_t bytes);
  // The smallest sufficient spare buffer. If there is none, a new buffer replaces a spare one, so that their number never exceeds the peak
  // use.
  Result<Memory> takeGathered(size_t bytes);

  // Checks that `call` is allowed: between optimizer steps, with nothing gathered.
  Status betweenSteps(const char* call) const;
  // Waits until nothing moves parameters.
  Status settleParams();
  // This rank's share of the model if it is sharded over all ranks.
  std::vector<Piece> pieces() const;
  // Collective. The pieces are in this client's memory.
  Result<Snapshot> snapshot(const char* call, const std::string& folder, uint64_t step);
  // Collective; all three for load() and loadByName().
  Result<Manifest> agreeOnManifest(const char* call, const std::string& folder);
  Result<std::vector<Section>> agreeOnSections(const std::string& folder, const Manifest& manifest);
  Status load(const std::string& folder, const Manifest& manifest, const Matching& matching);
  // Sends all data from the ranks that have loaded it (see pieces()) to all ranks that keep it.
  Status spread();
  Status spread(Bucket& bucket, std::byte* block, horingParoPartition_t kept, horingDataType_t type);

  const horingComm_t comm_;
  const Description description_;
  Grid grid_;
  std::unique_ptr<Backend> backend_;  // outlives all memory and transfers
  const Row* row_ = nullptr;
  horingParoStrategy_t strategy_ = horingParoAuto;
  std::vector<Move> moves_;
  uint64_t memory_ = 0, largest_memory_ = 0;  // of parameters, gradients and state: of this rank, of any
  BucketList list_;
  horingParoUsage_t usage_ =
      HORING_PARO_USAGE_INITIALIZER;  // memory counters; the transfers count bytes sent
  std::vector<Bucket> buckets_;
  std::vector<GradBuffer> grad_buffers_;  // as many as config.gradBuffers; constant
  std::deque<GradBuffer*> reducing_;      // in the order of issue and collection, so that sums do not vary
  struct Fold {
    Move move;
    Bucket* bucket;
    std::byte* block;
    GradBuffer* scratch;
  };
  std::deque<Fold> folds_;
  std::vector<Memory> spare_;  // for gathered parameters
  Phase phase_ = Phase::kMicroSteps;
  Status failed_;  // the sticky error of a collective
  Transfers param_transfers_;
  Transfers grad_transfers_;    // destroyed early: no collective is in flight when memory is freed
  std::optional<Saver> saver_;  // once there is a backend
};

}  // namespace horing::paro
