#include "paro/saver.h"

#include <dirent.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/no_memory.h"
#include "paro/agreement.h"
#include "paro/convert.h"
#include "paro/status_of.h"

namespace horing::paro {

namespace {

struct Ranks {
  int count = 0;
  int mine = 0;
};
Result<Ranks> ranksOf(horingComm_t comm) {
  Ranks ranks;
  HORING_TRY(statusOf(horingCommCount(comm, &ranks.count)));
  HORING_TRY(statusOf(horingCommUserRank(comm, &ranks.mine)));
  return ranks;
}

// Checks that this rank can see the files of all ranks.
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

// Removes files of earlier saves, complete or not.
void removeLeftOvers(const std::string& folder, uint64_t generation) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (!entries) return;
  while (const dirent* const entry = ::readdir(entries.get()))
    if (isLeftOver(entry->d_name, generation)) (void)std::remove((folder + "/" + entry->d_name).c_str());
}

// Collective.
Result<uint64_t> newGeneration(horingComm_t comm) {
  uint64_t generation = 0;
  randombytes_buf(&generation, sizeof generation);
  HORING_TRY(statusOf(horingBcast(&generation, 1, horingUint64, 0, comm, nullptr)));
  return generation;
}

// Collective: writes this rank's file of these pieces. On success the files of all ranks are on disk and visible to rank 0.
Result<std::vector<FileEntry>> writeFiles(horingComm_t comm, const Ranks& ranks, const std::string& folder,
                                          uint64_t generation, std::span<Piece> mine) {
  HORING_TRY(agree(comm, makeFolder(folder)));
  const Result<FileEntry> written =
      writeFile(filePath(folder, generation, static_cast<size_t>(ranks.mine)), mine);
  // File names, too, must be on disk before a manifest refers to them.
  HORING_TRY(agree(comm, written.ok() ? syncFolder(folder) : written.status()));

  const FileEntry entry = written.value();
  std::vector<FileEntry> files(static_cast<size_t>(ranks.count));
  HORING_TRY(statusOf(horingAllGather(&entry, files.data(), sizeof entry, horingUint8, comm, nullptr)));
  HORING_TRY(agree(comm, ranks.mine == 0 ? seesFiles(folder, generation, files) : Status()));
  return files;
}

}  // namespace

Status writeCheckpoint(horingComm_t comm, Snapshot& snapshot) {
  HORING_ASSIGN(const Ranks ranks, ranksOf(comm));
  HORING_ASSIGN(const uint64_t generation, newGeneration(comm));
  const std::string& folder = snapshot.folder;
  Result<std::vector<FileEntry>> files = writeFiles(comm, ranks, folder, generation, snapshot.pieces);
  if (!files.ok()) {
    // Frees a full disk. Only rank 0 may do this, since only rank 0 knows that there will be no manifest.
    if (ranks.mine == 0) removeFiles(folder, generation, ranks.count);
    return files.status();
  }
  const Manifest manifest{.generation = generation,
                          .step = snapshot.step,
                          .state_values = snapshot.state_values,
                          .params = snapshot.params,
                          .names = snapshot.names,
                          .files = files.take()};
  HORING_TRY(agree(comm, ranks.mine == 0 ? writeManifest(folder, manifest) : Status()));
  if (ranks.mine == 0) removeLeftOvers(folder, generation);
  return {};
}

Status checkFolder(horingComm_t comm, const std::string& folder) {
  HORING_ASSIGN(const Ranks ranks, ranksOf(comm));
  HORING_ASSIGN(const uint64_t generation, newGeneration(comm));
  const Status written = writeFiles(comm, ranks, folder, generation, {}).status();
  (void)std::remove(filePath(folder, generation, static_cast<size_t>(ranks.mine)).c_str());
  return written;
}

Saver::~Saver() {
  thread_.end([] {});
  if (comm_) (void)horingCommDestroy(comm_);
}

Status Saver::mayCall(const char* call) const {
  if (!is_under_way_) return {};
  return makeStatus(Code::kInvalidUsage, "%s while a save is under way: expected horingParoWaitSave before",
                    call);
}

Status Saver::copyPieces() {
  return agree(given_, withoutExceptions([&] { return copyMine(); }));
}

Status Saver::copyMine() {
  for (Piece& piece : snapshot_.pieces) {
    const size_t bytes = piece.section.count * bytesOf(static_cast<horingDataType_t>(piece.section.type));
    HORING_ASSIGN(Memory copy, Memory::allocate(*copies_on_, "a copy to be saved", bytes, counter_));
    HORING_TRY(backend_.read(copy.data(), piece.data, bytes));
    piece.data = copy.data();
    copies_.push_back(std::move(copy));
  }
  return {};
}

void Saver::drop() {
  snapshot_ = {};
  copies_.clear();
}

Status Saver::write(Snapshot snapshot) {
  snapshot_ = std::move(snapshot);
  Status written = backend_.isHost() ? Status() : copyPieces();
  if (written.ok()) written = writeCheckpoint(given_, snapshot_);
  drop();
  return written;
}

Status Saver::start(Snapshot snapshot) {
  if (!comm_) {
    HORING_ASSIGN(const Ranks ranks, ranksOf(given_));
    // Otherwise it would inherit the user's settings, and might be non-blocking.
    horingConfig_t config = HORING_CONFIG_INITIALIZER;
    config.blocking = 1;
    HORING_TRY(statusOf(horingCommSplit(given_, 0, ranks.mine, &comm_, &config)));
  }
  int timeout_ms = 0;
  HORING_TRY(statusOf(horingCommGetTimeout(given_, &timeout_ms)));
  HORING_TRY(statusOf(horingCommSetTimeout(comm_, timeout_ms)));
  snapshot_ = std::move(snapshot);
  const Status agreed = copyPieces();
  if (!agreed.ok()) {
    drop();
    return agreed;
  }
  is_under_way_ = true;
  const auto write = [this] {
    result_ = withoutExceptions([&] { return writeCheckpoint(comm_, snapshot_); });
  };
  // The other ranks count on this one.
  if (!thread_.start("a checkpoint", write).ok()) write();
  return {};
}

Status Saver::wait() {
  if (!is_under_way_) return {};
  thread_.end([] {});
  drop();
  is_under_way_ = false;
  return std::exchange(result_, Status());
}

}  // namespace horing::paro
