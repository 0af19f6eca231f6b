// Saving and loading: which elements go where. What the files look like is in checkpoint_format.h.
//
// Every rank saves its block of a partition among all ranks, whatever the strategy, so each element is written
// once, and nothing is sent. Loading, a rank takes the same block out of whichever files have it, so each element is
// read once; what others keep, too, is sent to them, as at the end of an optimizer step. Rank 0 alone looks into
// all files, to tell the others what is in them.
#include <dirent.h>

#include <algorithm>
#include <cinttypes>
#include <map>
#include <memory>

#include "paro/checkpoint_format.h"
#include "paro/client.h"
#include "paro/convert.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

// Elements that a section and a piece have in common.
struct Overlap {
  uint64_t first = 0;
  uint64_t count = 0;
};
Overlap overlapOf(const Section& one, const Section& other) {
  const uint64_t first = std::max(one.first, other.first);
  const uint64_t end = std::min(one.first + one.count, other.first + other.count);
  return {first, end > first ? end - first : 0};
}

// Where elements of this rank are in a checkpoint.
struct Source {
  Section section;
  Overlap overlap;
  Piece* piece;
};

Status differs(const char* what, uint64_t theirs, uint64_t ours) {
  return makeStatus(Code::kInvalidArgument,
                    "the checkpoint is of another model: it has %" PRIu64 " %s, and this one has %" PRIu64,
                    theirs, what, ours);
}

Status checkModel(const Manifest& manifest, const Description& mine) {
  if (manifest.params.size() != mine.params.size())
    return differs("parameters", manifest.params.size(), mine.params.size());
  if (manifest.state_values != mine.config.stateValues)
    return differs("values of state for each element", static_cast<uint64_t>(manifest.state_values),
                   static_cast<uint64_t>(mine.config.stateValues));
  for (size_t i = 0; i < mine.params.size(); ++i) {
    const horingParoParam_t &theirs = manifest.params[i], &ours = mine.params[i];
    if (theirs.count == ours.count && theirs.type == ours.type && !theirs.trainable == !ours.trainable)
      continue;
    return makeStatus(Code::kInvalidArgument,
                      "the checkpoint is of another model: its parameter %zu has %zu %s elements, %s, and "
                      "that of this one %zu %s "
                      "elements, %s",
                      i, theirs.count, nameOf(theirs.type), theirs.trainable ? "trainable" : "frozen",
                      ours.count, nameOf(ours.type), ours.trainable ? "trainable" : "frozen");
  }
  return {};
}

// The files of a checkpoint, with the places of what one rank needs of them.
class Reader {
 public:
  Reader(const std::string& folder, std::span<Piece> pieces) : folder_(folder) {
    for (Piece& piece : pieces) wanted_[{piece.section.param, piece.section.kind}] = &piece;
  }

  // Proves that the pieces are what was written. `sections` are complete: those of all files, one file after the other.
  Status find(const Manifest& manifest, std::span<const Section> sections);
  // Brings them into memory.
  Status read() const;

 private:
  Result<OldFile> open(size_t file) const { return OldFile::open(filePath(folder_, generation_, file)); }

  std::string folder_;
  uint64_t generation_ = 0;
  std::map<std::pair<uint64_t, uint32_t>, Piece*> wanted_;
  std::map<size_t, std::vector<Source>> sources_;  // by file
};

Status Reader::find(const Manifest& manifest, std::span<const Section> sections) {
  generation_ = manifest.generation;
  auto next = sections.begin();
  for (size_t number = 0; number < manifest.files.size(); ++number)
    for (uint64_t i = 0; i < manifest.files[number].sections; ++i, ++next) {
      const auto wanted = wanted_.find({next->param, next->kind});
      if (wanted == wanted_.end()) continue;
      const Overlap overlap = overlapOf(*next, wanted->second->section);
      if (overlap.count > 0) sources_[number].push_back({*next, overlap, wanted->second});
    }
  for (const auto& [number, sources] : sources_) {
    HORING_ASSIGN(const OldFile file, open(number));
    for (const Source& source : sources) HORING_TRY(verifySection(file, source.section));
  }
  return {};
}

Status Reader::read() const {
  for (const auto& [number, sources] : sources_) {
    HORING_ASSIGN(const OldFile file, open(number));
    for (const Source& source : sources) {
      const size_t element_bytes = bytesOf(static_cast<horingDataType_t>(source.section.type));
      const uint64_t from = source.overlap.first - source.section.first,
                     to = source.overlap.first - source.piece->section.first;
      HORING_TRY(file.read(source.section.offset + from * element_bytes,
                           source.piece->data + to * element_bytes, source.overlap.count * element_bytes));
    }
  }
  return {};
}

// The sections of all files, one file after the other.
Result<std::vector<Section>> readIndices(const std::string& folder, const Manifest& manifest) {
  std::vector<Section> all;
  for (size_t number = 0; number < manifest.files.size(); ++number) {
    const std::string path = filePath(folder, manifest.generation, number);
    HORING_ASSIGN(const std::vector<Section> sections, readSections(path, manifest.files[number]));
    all.insert(all.end(), sections.begin(), sections.end());
  }
  return all;
}

// Whether what all ranks have written is where this one will look for it.
Status seesFiles(const std::string& folder, uint64_t generation, std::span<const FileEntry> files) {
  for (size_t number = 0; number < files.size(); ++number) {
    const std::string path = filePath(folder, generation, number);
    const Result<OldFile> file = OldFile::open(path);
    if (!file.ok() || file.value().bytes() != files[number].bytes)
      return makeStatus(Code::kInvalidUsage,
                        "rank %zu has written %s, which is not here: expected a folder that all ranks see",
                        number, path.c_str());
  }
  return {};
}

void removeFiles(const std::string& folder, uint64_t generation, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    (void)std::remove(filePath(folder, generation, static_cast<size_t>(rank)).c_str());
}

// What earlier saves, finished or not, have left.
void removeLeftOvers(const std::string& folder, uint64_t generation) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (!entries) return;
  while (const dirent* const entry = ::readdir(entries.get()))
    if (isLeftOver(entry->d_name, generation)) (void)std::remove((folder + "/" + entry->d_name).c_str());
}

}  // namespace

Status Client::betweenSteps(const char* call) const {
  if (phase_ != Phase::kMicroSteps)
    return makeStatus(Code::kInvalidUsage,
                      "%s within an optimizer step: expected horingParoSyncParams before", call);
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const char* const expected = buckets_[i].is_gathered ? "horingParoReleaseParams" : "horingParoSyncParams";
    if (buckets_[i].is_gathered || buckets_[i].reductions > 0)
      return makeStatus(Code::kInvalidUsage, "%s while bucket %zu is %s: expected %s before", call, i,
                        buckets_[i].is_gathered ? "gathered" : "within an optimizer step", expected);
  }
  for (const GradBuffer& buffer : grad_buffers_)
    if (buffer.use == GradBuffer::Use::kOpen)
      return makeStatus(Code::kInvalidUsage,
                        "%s while bucket %d has open gradients: expected horingParoSyncParams before", call,
                        buffer.bucket);
  return {};
}

std::vector<Piece> Client::pieces() const {
  std::vector<Piece> pieces;
  for (size_t p = 0; p < list_.places.size(); ++p) {
    const horingParoPlace_t& place = list_.places[p];
    const Bucket& bucket = buckets_[static_cast<size_t>(place.bucket)];
    const Range block = blockOf(bucket, horingParoByAll);
    const size_t first = std::max(place.offset, block.first);
    const size_t end = std::min(place.offset + place.count, block.first + block.count);
    if (first >= end) continue;
    const auto add = [&](uint32_t kind, const Memory& memory, horingParoPartition_t kept,
                         horingDataType_t type) {
      const Section section{.param = p,
                            .first = first - place.offset,
                            .count = end - first,
                            .kind = kind,
                            .type = static_cast<uint32_t>(type)};
      pieces.push_back({section, memory.data() + (first - blockOf(bucket, kept).first) * bytesOf(type)});
    };
    if (!bucket.layout.trainable) {
      add(kFrozen, bucket.params, row_->params, bucket.layout.type);
      continue;
    }
    const horingDataType_t type = stateTypeOf(bucket.layout.type);
    add(kMaster, bucket.master ? bucket.master : bucket.params, bucket.master ? row_->state : row_->params,
        type);
    for (size_t i = 0; i < bucket.state.size(); ++i)
      add(kFirstState + static_cast<uint32_t>(i), bucket.state[i], row_->state, type);
  }
  return pieces;
}

Status Client::settleParams() {
  for (const Bucket& bucket : buckets_) HORING_TRY(await(bucket.params_ready));
  return {};
}

Result<uint64_t> Client::newGeneration() const {
  uint64_t generation = 0;
  randombytes_buf(&generation, sizeof generation);
  HORING_TRY(statusOf(horingBcast(&generation, 1, horingUint64, 0, comm_, nullptr)));
  return generation;
}

// This rank writes a file of these pieces. All are on the disk, where rank 0 sees them, when this succeeds.
Result<std::vector<FileEntry>> Client::writeFiles(const std::string& folder, uint64_t generation,
                                                  std::span<Piece> mine) const {
  HORING_TRY(agree(comm_, makeFolder(folder)));
  const Result<FileEntry> written =
      writeFile(filePath(folder, generation, static_cast<size_t>(grid_.rank())), mine);
  // Names, too, must be on the disk before a manifest tells of them.
  HORING_TRY(agree(comm_, written.ok() ? syncFolder(folder) : written.status()));

  const FileEntry entry = written.value();
  std::vector<FileEntry> files(static_cast<size_t>(grid_.shape().ranks()));
  HORING_TRY(statusOf(horingAllGather(&entry, files.data(), sizeof entry, horingUint8, comm_, nullptr)));
  HORING_TRY(agree(comm_, grid_.rank() == 0 ? seesFiles(folder, generation, files) : Status()));
  return files;
}

Status Client::save(const std::string& folder, uint64_t step) {
  HORING_TRY(mayCall());
  Status local = betweenSteps("horingParoSave");
  if (local.ok()) local = settleParams();
  HORING_TRY(agree(comm_, local));

  HORING_ASSIGN(const uint64_t generation, newGeneration());
  std::vector<Piece> mine = pieces();
  Result<std::vector<FileEntry>> files = writeFiles(folder, generation, mine);
  if (!files.ok()) {
    // A full disk shall not stay full. No other rank may decide so: only rank 0 knows that there will be no manifest.
    if (grid_.rank() == 0) removeFiles(folder, generation, grid_.shape().ranks());
    return files.status();
  }
  const Manifest manifest{.generation = generation,
                          .step = step,
                          .state_values = description_.config.stateValues,
                          .params = description_.params,
                          .files = files.take()};
  HORING_TRY(agree(comm_, grid_.rank() == 0 ? writeManifest(folder, manifest) : Status()));
  if (grid_.rank() == 0) removeLeftOvers(folder, generation);
  return {};
}

Status Client::checkFolder(const std::string& folder) {
  HORING_TRY(mayCall());
  HORING_ASSIGN(const uint64_t generation, newGeneration());
  const Status written = writeFiles(folder, generation, {}).status();
  (void)std::remove(filePath(folder, generation, static_cast<size_t>(grid_.rank())).c_str());
  return written;
}

// `block` is this rank's of `kept`; its share of that is there.
Status Client::spread(Bucket& bucket, std::byte* block, horingParoPartition_t kept, horingDataType_t type) {
  if (kept == horingParoByAll || bucket.layout.padded == 0) return {};
  failed_ = param_transfers_.issue(gatherTo(kept), {block, nullptr, blockOf(bucket, kept).count, type},
                                   /*average=*/false);
  HORING_TRY(failed_);
  HORING_ASSIGN(bucket.params_ready, param_transfers_.completion());
  return {};
}

Status Client::spread() {
  for (Bucket& bucket : buckets_) {
    if (!bucket.layout.trainable) {
      HORING_TRY(spread(bucket, bucket.params.data(), row_->params, bucket.layout.type));
      continue;
    }
    const horingDataType_t type = stateTypeOf(bucket.layout.type);
    std::byte* const master =
        bucket.master ? bucket.master.data() : shardIn(bucket, bucket.params, row_->params);
    HORING_TRY(spread(bucket, master, row_->state, type));
    for (const Memory& values : bucket.state) HORING_TRY(spread(bucket, values.data(), row_->state, type));
    HORING_TRY(await(bucket.params_ready));
    HORING_TRY(publish(bucket));
  }
  return {};
}

// The manifest that all ranks see.
Result<Manifest> Client::agreeOnManifest(const std::string& folder) {
  Status local = betweenSteps("horingParoLoad");
  if (local.ok()) local = settleParams();
  Manifest manifest;
  if (local.ok()) {
    Result<Manifest> found = readManifest(folder);
    local = found.status();
    if (local.ok()) manifest = found.take();
  }
  if (local.ok()) local = checkModel(manifest, description_);
  HORING_TRY(agree(comm_, local));
  const std::string text = manifest.text();
  const Digest digest = digestOf(text.data(), text.size());
  Digest first = digest;
  HORING_TRY(statusOf(horingBcast(first.data(), first.size(), horingUint8, 0, comm_, nullptr)));
  if (digest != first)
    local = makeStatus(Code::kInvalidUsage,
                       "%s is another checkpoint here than on rank 0: expected nobody to save meanwhile",
                       folder.c_str());
  HORING_TRY(agree(comm_, local));
  return manifest;
}

// What rank 0 has found in the files that the manifest names.
Result<std::vector<Section>> Client::agreeOnSections(const std::string& folder, const Manifest& manifest) {
  std::vector<Section> sections;
  Status local;
  if (grid_.rank() == 0) {
    Result<std::vector<Section>> found = readIndices(folder, manifest);
    local = found.status();
    if (local.ok()) local = checkSections(manifest, found.value());
    if (local.ok()) sections = found.take();
  }
  HORING_TRY(agree(comm_, local));
  uint64_t count = sections.size();
  HORING_TRY(statusOf(horingBcast(&count, 1, horingUint64, 0, comm_, nullptr)));
  sections.resize(count);
  HORING_TRY(statusOf(horingBcast(sections.data(), count * sizeof(Section), horingUint8, 0, comm_, nullptr)));
  return sections;
}

Result<uint64_t> Client::load(const std::string& folder) {
  HORING_TRY(mayCall());
  HORING_ASSIGN(const Manifest manifest, agreeOnManifest(folder));
  HORING_ASSIGN(const std::vector<Section> sections, agreeOnSections(folder, manifest));
  std::vector<Piece> mine = pieces();
  Reader reader(folder, mine);
  HORING_TRY(agree(comm_, reader.find(manifest, sections)));

  // From here on there is no way back: what fails now leaves this rank with half of it.
  failed_ = agree(comm_, reader.read());
  HORING_TRY(failed_);
  failed_ = spread();
  HORING_TRY(failed_);
  return manifest.step;
}

}  // namespace horing::paro
