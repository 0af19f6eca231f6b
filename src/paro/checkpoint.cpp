// Saving and loading: the assignment of elements to files. checkpoint_format.h has the format of the files, saver.h writes them.
//
// Every rank saves its block of a partition among all ranks, whatever the strategy, so each element is written once, and nothing is sent.
// For loading, a rank reads the same block from whichever files have it, so each element is read once; data that several ranks keep is sent
// to them, as at the end of an optimizer step. Only rank 0 reads the indices of all files, and sends them to the others.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/no_memory.h"
#include "paro/checkpoint_format.h"
#include "paro/client.h"
#include "paro/convert.h"
#include "paro/matching.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

// The elements that a section and a piece share, in their parameter.
Range overlapOf(const Section& one, const Section& other) {
  return overlapOf(Range{one.first, one.count}, Range{other.first, other.count});
}

// The location of elements of this rank in a checkpoint.
struct Source {
  Section section;
  Range overlap;
  Piece* piece;
};

size_t elementBytes(const Section& section) {
  return bytesOf(static_cast<horingDataType_t>(section.type));
}

// Converts the elements if their type is another one in the checkpoint.
Status readSource(const OldFile& file, const Source& source) {
  const auto theirs = static_cast<horingDataType_t>(source.section.type),
             ours = static_cast<horingDataType_t>(source.piece->section.type);
  const size_t element_bytes = elementBytes(source.section);
  const uint64_t from = source.section.offset + (source.overlap.first - source.section.first) * element_bytes;
  std::byte* const to =
      source.piece->data + (source.overlap.first - source.piece->section.first) * bytesOf(ours);
  if (theirs == ours) return file.read(from, to, source.overlap.count * element_bytes);
  constexpr size_t kBlock = size_t{1} << 17;  // elements
  std::vector<std::byte> block(std::min(source.overlap.count, kBlock) * element_bytes);
  for (size_t done = 0; done < source.overlap.count; done += kBlock) {
    const size_t count = std::min(source.overlap.count - done, kBlock);
    HORING_TRY(file.read(from + done * element_bytes, block.data(), count * element_bytes));
    convert(block.data(), theirs, to + done * bytesOf(ours), ours, count);
  }
  return {};
}

// The files of a checkpoint, with the locations of one rank's elements.
class Reader {
 public:
  Reader(const std::string& folder, std::span<Piece> pieces) : folder_(folder) {
    for (Piece& piece : pieces) wanted_[{piece.section.param, piece.section.kind}] = &piece;
  }

  // Finds and verifies the pieces of parameters that are loaded. `sections`: of all files, in file order.
  Status find(const Manifest& manifest, const Matching& matching, std::span<const Section> sections);
  // Reads the pieces into memory, in their types. State that the checkpoint does not have becomes 0.
  Status read() const;

 private:
  // The piece that a section belongs to; null: it is not loaded, or of another rank.
  Piece* pieceOf(const Matching& matching, const Section& section) const;
  Result<OldFile> open(size_t file) const { return OldFile::open(filePath(folder_, generation_, file)); }

  std::string folder_;
  uint64_t generation_ = 0;
  std::map<std::pair<uint64_t, uint32_t>, Piece*> wanted_;
  std::map<size_t, std::vector<Source>> sources_;  // by file
  std::vector<Piece*> absent_;
};

// A parameter may be trainable here and frozen there.
Piece* Reader::pieceOf(const Matching& matching, const Section& section) const {
  const size_t param = matching.to[section.param];
  const auto piece_of = [&](uint32_t kind) {
    const auto found = wanted_.find({param, kind});
    return found == wanted_.end() ? nullptr : found->second;
  };
  if (section.kind >= kFirstState) return piece_of(section.kind);
  Piece* const master = piece_of(kMaster);
  return master ? master : piece_of(kFrozen);
}

Status Reader::find(const Manifest& manifest, const Matching& matching, std::span<const Section> sections) {
  generation_ = manifest.generation;
  auto next = sections.begin();
  for (size_t number = 0; number < manifest.files.size(); ++number)
    for (uint64_t i = 0; i < manifest.files[number].sections; ++i, ++next) {
      Piece* const piece = pieceOf(matching, *next);
      if (!piece) continue;
      const Range overlap = overlapOf(*next, piece->section);
      if (overlap.count > 0) sources_[number].push_back({*next, overlap, piece});
    }
  for (const auto& [wanted, piece] : wanted_) {
    const size_t from = matching.from[wanted.first];
    if (from == Matching::kNone || wanted.second < kFirstState) continue;
    const size_t values = manifest.params[from].trainable ? static_cast<size_t>(manifest.state_values) : 0;
    if (wanted.second - kFirstState >= values) absent_.push_back(piece);
  }
  for (const auto& [number, sources] : sources_) {
    HORING_ASSIGN(const OldFile file, open(number));
    for (const Source& source : sources) HORING_TRY(verifySection(file, source.section, manifest.names));
  }
  return {};
}

Status Reader::read() const {
  for (const auto& [number, sources] : sources_) {
    HORING_ASSIGN(const OldFile file, open(number));
    for (const Source& source : sources) HORING_TRY(readSource(file, source));
  }
  for (const Piece* const piece : absent_)
    std::memset(piece->data, 0, piece->section.count * elementBytes(piece->section));
  return {};
}

// Pieces in memory of the host: the pieces themselves, or copies while they are on a GPU.
class ReadablePieces {
 public:
  ReadablePieces(Backend& backend, std::vector<Piece> pieces)
      : backend_(backend), kept_(std::move(pieces)), all_(kept_) {}
  std::span<Piece> all() { return all_; }

  Status open() {
    if (backend_.isHost()) return {};
    for (Piece& piece : all_) {
      copies_.emplace_back(bytesIn(piece));
      HORING_TRY(backend_.read(copies_.back().data(), piece.data, bytesIn(piece)));
      piece.data = copies_.back().data();
    }
    return {};
  }
  // What was changed takes effect.
  Status close() {
    for (size_t i = 0; i < copies_.size(); ++i)
      HORING_TRY(backend_.write(kept_[i].data, copies_[i].data(), copies_[i].size()));
    return {};
  }

 private:
  static size_t bytesIn(const Piece& piece) { return piece.section.count * elementBytes(piece.section); }
  Backend& backend_;
  const std::vector<Piece> kept_;
  std::vector<Piece> all_;
  std::vector<std::vector<std::byte>> copies_;
};

// Reads the sections of all files, in file order.
Result<std::vector<Section>> readIndices(const std::string& folder, const Manifest& manifest) {
  std::vector<Section> all;
  for (size_t number = 0; number < manifest.files.size(); ++number) {
    const std::string path = filePath(folder, manifest.generation, number);
    HORING_ASSIGN(const std::vector<Section> sections, readSections(path, manifest.files[number]));
    all.insert(all.end(), sections.begin(), sections.end());
  }
  return all;
}

}  // namespace

Status Client::betweenSteps(const char* call) const {
  HORING_TRY(saver_->mayCall(call));
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
    const Range saved = overlapOf({place.offset, place.count}, blockOf(bucket, horingParoByAll));
    if (saved.count == 0) continue;
    const auto add = [&](uint32_t kind, const Memory& memory, horingParoPartition_t kept,
                         horingDataType_t type) {
      const Section section{.param = p,
                            .first = saved.first - place.offset,
                            .count = saved.count,
                            .kind = kind,
                            .type = static_cast<uint32_t>(type)};
      pieces.push_back(
          {section, memory.data() + (saved.first - blockOf(bucket, kept).first) * bytesOf(type)});
    };
    const horingDataType_t type = bucket.layout.stateType();
    const uint32_t kind = bucket.layout.trainable ? kMaster : kFrozen;
    if (bucket.master)
      add(kind, bucket.master, row_->state, type);
    else
      add(kind, bucket.params, row_->params, bucket.layout.type);
    for (size_t i = 0; i < bucket.state.size(); ++i)
      add(kFirstState + static_cast<uint32_t>(i), bucket.state[i], row_->state, type);
  }
  return pieces;
}

Status Client::settleParams() {
  for (const Bucket& bucket : buckets_) HORING_TRY(await(bucket.params_ready));
  return {};
}

Result<Snapshot> Client::snapshot(const char* call, const std::string& folder, uint64_t step) {
  HORING_TRY(mayCall());
  Status local = betweenSteps(call);
  if (local.ok()) local = settleParams();
  HORING_TRY(agree(comm_, local));
  return Snapshot{folder,  step, description_.config.stateValues, description_.params, description_.names,
                  pieces()};
}

Status Client::save(const std::string& folder, uint64_t step) {
  HORING_ASSIGN(Snapshot now, snapshot("horingParoSave", folder, step));
  return saver_->write(std::move(now));
}

Status Client::startSave(const std::string& folder, uint64_t step) {
  HORING_ASSIGN(Snapshot now, snapshot("horingParoStartSave", folder, step));
  return saver_->start(std::move(now));
}

Status Client::waitSave() {
  return saver_->wait();
}

Status Client::checkFolder(const std::string& folder) {
  HORING_TRY(mayCall());
  HORING_TRY(agree(comm_, saver_->mayCall("horingParoCheckFolder")));
  return paro::checkFolder(comm_, folder);
}

// `block`: this rank's block of `kept`, which contains its share.
Status Client::spread(Bucket& bucket, std::byte* block, horingParoPartition_t kept, horingDataType_t type) {
  if (kept == horingParoByAll || bucket.layout.padded.count == 0) return {};
  HORING_TRY(failWith(param_transfers_.issue(gatherTo(kept), {block, nullptr, bucket.layout.padded, type},
                                             /*average=*/false)));
  return mark(param_transfers_, bucket.params_ready);
}

Status Client::spread() {
  for (Bucket& bucket : buckets_) {
    if (!bucket.layout.trainable && !bucket.layout.hasMaster()) {
      HORING_TRY(spread(bucket, bucket.params.data(), row_->params, bucket.layout.type));
      continue;
    }
    const horingDataType_t type = bucket.layout.stateType();
    std::byte* const master =
        bucket.layout.hasMaster() ? bucket.master.data() : shardIn(bucket, bucket.params, row_->params, type);
    HORING_TRY(spread(bucket, master, row_->state, type));
    for (const Memory& values : bucket.state) HORING_TRY(spread(bucket, values.data(), row_->state, type));
    HORING_TRY(await(bucket.params_ready));
    HORING_TRY(publish(bucket));
  }
  return {};
}

// The manifest that all ranks see.
Result<Manifest> Client::agreeOnManifest(const char* call, const std::string& folder) {
  Status local = betweenSteps(call);
  if (local.ok()) local = settleParams();
  Manifest manifest;
  if (local.ok()) {
    Result<Manifest> found = readManifest(folder);
    local = found.status();
    if (local.ok()) manifest = found.take();
  }
  HORING_TRY(agree(comm_, local));
  const std::string text = manifest.text();
  const Digest digest = digestOf(text.data(), text.size());
  Digest first = digest;
  HORING_TRY(statusOf(horingBcast(first.data(), first.size(), horingUint8, 0, comm_, nullptr)));
  if (digest != first)
    local =
        makeStatus(Code::kInvalidUsage,
                   "%s is another checkpoint here than on rank 0: expected no other job to save meanwhile",
                   folder.c_str());
  HORING_TRY(agree(comm_, local));
  return manifest;
}

// The sections that rank 0 has read from the files of the manifest.
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
  HORING_ASSIGN(const Manifest manifest, agreeOnManifest("horingParoLoad", folder));
  const Result<Matching> matching = matchAll(manifest, description_);
  HORING_TRY(agree(comm_, matching.status()));
  HORING_TRY(load(folder, manifest, matching.value()));
  return manifest.step;
}

Result<Client::Loaded> Client::loadByName(const std::string& folder, bool strict) {
  HORING_TRY(mayCall());
  HORING_ASSIGN(const Manifest manifest, agreeOnManifest("horingParoLoadByName", folder));
  const Result<Matching> matching = matchNames(manifest, description_, strict);
  HORING_TRY(agree(comm_, matching.status()));
  HORING_TRY(load(folder, manifest, matching.value()));
  Loaded loaded{manifest.step, {}};
  for (const size_t from : matching.value().from) loaded.params.push_back(from != Matching::kNone);
  return loaded;
}

Status Client::load(const std::string& folder, const Manifest& manifest, const Matching& matching) {
  HORING_ASSIGN(const std::vector<Section> sections, agreeOnSections(folder, manifest));
  ReadablePieces mine(*backend_, pieces());
  HORING_TRY(agree(comm_, withoutExceptions([&] { return mine.open(); })));
  Reader reader(folder, mine.all());
  HORING_TRY(agree(comm_, reader.find(manifest, matching, sections)));

  // From here on a failure leaves this rank with half a checkpoint.
  Status local = reader.read();
  if (local.ok()) local = mine.close();
  failed_ = agree(comm_, local);
  HORING_TRY(failed_);
  failed_ = spread();
  return failed_;
}

}  // namespace horing::paro
