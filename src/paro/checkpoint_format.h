#pragma once
// What a checkpoint consists of: files of sections, one of each rank that wrote, and a manifest that names them.
//
// Nothing in it depends on buckets, strategy or number of ranks: a *section* is a range of elements of one
// parameter. The manifest is text, replaced in one step when all files it names are complete, so a folder always
// holds one whole checkpoint. Every file has the number of its save, the *generation*, in its name: a new save
// touches nothing of the last one. The digest of the manifest covers the indices of the files, and these cover the
// sections.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"
#include "paro/digest.h"
#include "paro/storage.h"

namespace horing::paro {

// What of a parameter: itself, if it is frozen; its master; the optimizer's first value, and so on.
enum Kind : uint32_t { kFrozen = 0, kMaster = 1, kFirstState = 2 };

// As stored, in the machine's byte order.
struct Section {
  uint64_t param = 0;
  uint64_t first = 0;  // element of the parameter
  uint64_t count = 0;
  uint32_t kind = kFrozen;
  uint32_t type = 0;    // horingDataType_t
  uint64_t offset = 0;  // of the first element, in the file
  Digest digest{};
};
static_assert(sizeof(Section) == 72);

// A section and where its elements are in memory.
struct Piece {
  Section section;
  std::byte* data = nullptr;
};

// A file of sections, as the manifest has it.
struct FileEntry {
  uint64_t bytes = 0;
  uint64_t sections = 0;
  Digest index{};  // of all Sections
};

struct Manifest {
  uint64_t generation = 0;
  uint64_t step = 0;
  int state_values = 0;
  std::vector<horingParoParam_t> params;
  std::vector<FileEntry> files;

  std::string text() const;
  // Error: what is wrong with the text, without the file's name.
  static Result<Manifest> parse(const std::string& text);
};

std::string manifestPath(const std::string& folder);
std::string filePath(const std::string& folder, uint64_t generation, size_t number);
// Whether a file of exactly this name is part of a checkpoint, or was to be, of another generation.
bool isLeftOver(const std::string& name, uint64_t generation);

Result<Manifest> readManifest(const std::string& folder);
Status writeManifest(const std::string& folder, const Manifest& manifest);

// Writes a file of these pieces.
Result<FileEntry> writeFile(const std::string& path, std::span<Piece> pieces);

// Reads the sections of a file, which are those that were written.
Result<std::vector<Section>> readSections(const std::string& path, const FileEntry& entry);
// Whether these sections of all files, one file after the other, are the manifest's model: of each element everything
// once, inside the files. A digest proves that somebody meant what is written, not that he meant well.
Status checkSections(const Manifest& manifest, std::span<const Section> sections);
// Whether the elements are those that were written.
Status verifySection(const OldFile& file, const Section& section);

}  // namespace horing::paro
