#pragma once
// The format of a checkpoint: files of sections, one from each rank, and a manifest that names them.
//
// Nothing in it depends on buckets, strategy or number of ranks: a *section* is a range of elements of one parameter. The manifest is text,
// replaced in one step when all files it names are complete, so a folder always holds one complete checkpoint. Every file has the number of
// its save, the *generation*, in its name: a new save does not touch the previous one. The manifest's digest covers the indices of the
// files, and the indices cover the sections. Parameters with names make it version 2.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "horing/paro.h"
#include "paro/digest.h"
#include "paro/names.h"
#include "paro/storage.h"

namespace horing::paro {

// The content of a section: the parameter, if frozen; its master; the optimizer's first value, and so on.
enum Kind : uint32_t { kFrozen = 0, kMaster = 1, kFirstState = 2 };

// As stored, in the machine's byte order.
struct Section {
  uint64_t param = 0;
  uint64_t first = 0;  // first element in the parameter
  uint64_t count = 0;
  uint32_t kind = kFrozen;
  uint32_t type = 0;    // horingDataType_t
  uint64_t offset = 0;  // of the first element, in the file
  Digest digest{};
};
static_assert(sizeof(Section) == 72);

// A section and its memory.
struct Piece {
  Section section;
  std::byte* data = nullptr;
};

// A file's entry in the manifest.
struct FileEntry {
  uint64_t bytes = 0;
  uint64_t sections = 0;
  Digest index{};  // over all Sections
};

struct Manifest {
  uint64_t generation = 0;
  uint64_t step = 0;
  int state_values = 0;
  std::vector<horingParoParam_t> params;
  Names names;
  std::vector<FileEntry> files;

  std::string text() const;
  // The error names the fault, without the file's name.
  static Result<Manifest> parse(const std::string& text);
};

std::string manifestPath(const std::string& folder);
std::string filePath(const std::string& folder, uint64_t generation, size_t number);
// Whether a file of this name belongs to a complete or failed save of another generation.
bool isLeftOver(const std::string& name, uint64_t generation);

Result<Manifest> readManifest(const std::string& folder);
Status writeManifest(const std::string& folder, const Manifest& manifest);

// Writes a file of these pieces.
Result<FileEntry> writeFile(const std::string& path, std::span<Piece> pieces);

// Reads the sections of a file and verifies their digest.
Result<std::vector<Section>> readSections(const std::string& path, const FileEntry& entry);
// Checks that the sections of all files, in file order, form the manifest's model: every element exactly once, inside the files. Needed
// besides the digest, since the files are untrusted.
Status checkSections(const Manifest& manifest, std::span<const Section> sections);
// Verifies the digest of a section's elements. `names`: of the checkpoint, for errors.
Status verifySection(const OldFile& file, const Section& section, const Names& names);

}  // namespace horing::paro
