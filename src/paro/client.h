#pragma once
// One rank's part of a sharded model: what it keeps of each bucket, and the order of calls.
//
// Everything lies in place: of the block that a bucket's gradients (parameters) are kept in, the optimizer's shard
// is a part, since state is shared out at least as finely. So gradients are reduced, and parameters gathered, where
// they are.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "paro/agreement.h"
#include "paro/bucket_list.h"
#include "paro/checkpoint_format.h"
#include "paro/grid.h"
#include "paro/memory.h"
#include "paro/transfers.h"

namespace horing::paro {

// Not thread-safe, neither copied nor moved. paro.h says what each call does.
class Client {
 public:
  // Collective. `refused`: what is wrong with this rank's arguments, which all ranks then hear.
  static Result<std::unique_ptr<Client>> create(horingComm_t comm, Description description,
                                                const Status& refused);
  ~Client();

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
  Result<const void*> param(size_t param);
  Status releaseParams(int bucket);

  Status openGrads(int bucket);
  Result<void*> grad(size_t param);
  Status reduceGrads(int bucket);
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
  Result<uint64_t> load(const std::string& folder);

 private:
  enum class Phase : uint8_t { kMicroSteps, kUpdate };

  // What this rank has of a bucket. Blocks are those of the row's partitions; the state's memory is the shard alone.
  struct Bucket {
    BucketLayout layout;
    Memory params;
    Memory grads;
    Memory master;  // none where the stored parameters are it
    std::vector<Memory> state;
    Memory gathered;  // while it is, and unless `params` is whole
    bool is_gathered = false;
    int reductions = 0;       // begun since the last step
    bool has_grads = false;   // `grads` holds some
    Completion params_ready;  // of `params` or `gathered`, whichever moved last
    Completion grads_ready;
  };
  // Holds one micro-step's gradients of a bucket.
  struct GradBuffer {
    Memory memory;
    enum class Use : uint8_t { kFree, kOpen, kReducing } use = Use::kFree;
    int bucket = 0;
    Completion reduced;
  };
  // A range of a bucket, in elements.
  struct Range {
    size_t first = 0;
    size_t count = 0;
  };

  Client(horingComm_t comm, Description description);
  Status chooseStrategy();
  Status allocate();
  Status allocate(Bucket& bucket);

  Status mayCall() const { return failed_; }
  Result<Bucket*> find(int bucket);
  Result<Bucket*> findTrainable(int bucket);
  Status checkParam(size_t param) const;
  // This rank's block of a bucket, the padding included.
  Range blockOf(const Bucket& bucket, horingParoPartition_t partition) const;
  // The shard's place in memory that keeps a block of `partition`.
  std::byte* shardIn(const Bucket& bucket, const Memory& memory, horingParoPartition_t partition) const;
  void store(Bucket& bucket, Range range, const std::byte* values, horingDataType_t type);

  Status issue(Transfers& transfers, const Move& move, Bucket& bucket, std::byte* block,
               const std::byte* own = nullptr);
  // Issues the phase's moves on the blocks in `memory`, which keeps `partition`.
  Status issueSync(horingParoPhase_t phase, Transfers& transfers, Bucket& bucket, const Memory& memory);
  Status await(const Completion& completion);
  // Rounds a bucket's master to where its parameters are kept, and begins to bring it to who else keeps them.
  Status publish(Bucket& bucket);
  Result<GradBuffer*> openBufferOf(int bucket);
  Status collectOldest();
  Status collectAll();
  Result<Memory> takeGathered(size_t bytes);

  // `call` is possible: nothing of an optimizer step is done yet, nothing is gathered.
  Status betweenSteps(const char* call) const;
  // Waits until nothing moves parameters.
  Status settleParams();
  // This rank's share of the model, when it is shared out among all.
  std::vector<Piece> pieces() const;
  // Collective; both for save().
  Result<uint64_t> newGeneration() const;
  Result<std::vector<FileEntry>> writeFiles(const std::string& folder, uint64_t generation,
                                            std::span<Piece> mine) const;
  // Collective; both for load().
  Result<Manifest> agreeOnManifest(const std::string& folder);
  Result<std::vector<Section>> agreeOnSections(const std::string& folder, const Manifest& manifest);
  // Brings everything from those who have its share of it, as pieces() gives it, to all that keep it.
  Status spread();
  Status spread(Bucket& bucket, std::byte* block, horingParoPartition_t kept, horingDataType_t type);

  const horingComm_t comm_;
  const Description description_;
  Grid grid_;
  const Row* row_ = nullptr;
  horingParoStrategy_t strategy_ = horingParoAuto;
  std::vector<Move> moves_;
  BucketList list_;
  horingParoUsage_t usage_{};  // counters of memory; those of bytes sent are the transfers'
  std::vector<Bucket> buckets_;
  GradBuffer grad_buffers_[2];
  std::deque<GradBuffer*>
      reducing_;  // in the order in which they were issued, and are collected: so sums do not vary
  std::vector<Memory> spare_;  // for gathered parameters
  Phase phase_ = Phase::kMicroSteps;
  Status failed_;  // of a collective: sticks
  Transfers param_transfers_;
  Transfers grad_transfers_;  // destroyed first: nothing is under way when memory goes
};

}  // namespace horing::paro
