#include "paro/checkpoint_format.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/hex.h"
#include "paro/bucket_list.h"
#include "paro/convert.h"

namespace horing::paro {

namespace {

// Without and with names.
constexpr char kMagic[] = "horing-paro-checkpoint-1", kMagicOfNames[] = "horing-paro-checkpoint-2";
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;
constexpr size_t kMaxFiles = size_t{1} << 20;
constexpr size_t kBlockBytes = size_t{1} << 20;

constexpr horingDataType_t kTypes[] = {horingFloat16, horingBfloat16, horingFloat32, horingFloat64};

std::string hex(const Digest& digest) {
  return hexText(std::as_bytes(std::span(digest)));
}

Status damaged(const char* what) {
  return makeStatus(Code::kInvalidArgument, "%s: the manifest is truncated, damaged or of another version",
                    what);
}

bool readDigest(std::istream& in, Digest& digest) {
  std::string text;
  if (!(in >> text) || text.size() != 2 * digest.size()) return false;
  for (size_t i = 0; i < digest.size(); ++i) {
    unsigned byte = 0;
    if (std::sscanf(text.c_str() + 2 * i, "%2x", &byte) != 1) return false;
    digest[i] = static_cast<uint8_t>(byte);
  }
  return true;
}

// Reads an expected word and a number.
bool readNumber(std::istream& in, const char* word, uint64_t& number) {
  std::string found;
  return in >> found && found == word && in >> number;
}

bool readParam(std::istream& in, horingParoParam_t& param) {
  std::string type, use;
  uint64_t count = 0;
  if (!readNumber(in, "param", count) || !(in >> type >> use)) return false;
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                         [&](horingDataType_t each) { return type == nameOf(each); });
  param = {count, found == std::end(kTypes) ? horingNumTypes : *found, use == "trainable"};
  return found != std::end(kTypes);
}

// The rest of the line, after a space.
bool readName(std::istream& in, std::string& name) {
  return in.get() == ' ' && std::getline(in, name);
}

// The text before the digest line; the digest must match.
Result<std::string> checkedBody(const std::string& text) {
  const size_t at = text.rfind("\ndigest ");
  if (at == std::string::npos) return damaged("there is no digest");
  const std::string body = text.substr(0, at + 1);
  if (text.substr(at + 1) != "digest " + hex(digestOf(body.data(), body.size())) + "\n")
    return damaged("the digest is another one");
  return body;
}

uint64_t sectionBytes(const Section& section) {
  return section.count * paro::bytesOf(static_cast<horingDataType_t>(section.type));
}

// The kinds of sections of a parameter: [first, second).
std::pair<uint32_t, uint32_t> kindsOf(const Manifest& manifest, uint64_t param) {
  if (!manifest.params[param].trainable) return {kFrozen, kFrozen + 1};
  return {kMaster, kFirstState + static_cast<uint32_t>(manifest.state_values)};
}

// Checks that a section fits this file, without overflow in sums.
Status checkSection(const Manifest& manifest, size_t file, const Section& section) {
  const auto refuse = [&](const char* what) {
    return makeStatus(Code::kInvalidArgument,
                      "file %zu of the checkpoint has a section of %s with %s: it is damaged", file,
                      labelOf(manifest.names, section.param).c_str(), what);
  };
  if (section.param >= manifest.params.size()) return refuse("a number that no parameter has");
  const horingParoParam_t& param = manifest.params[section.param];
  const auto [first_kind, end_kind] = kindsOf(manifest, section.param);
  if (section.kind < first_kind || section.kind >= end_kind) return refuse("a value that it does not have");
  const horingDataType_t type = param.trainable ? stateTypeOf(param.type) : param.type;
  if (section.type != static_cast<uint32_t>(type)) return refuse("elements of another type");
  if (section.count == 0 || section.count > param.count || section.first > param.count - section.count)
    return refuse("elements that it does not have");
  const FileEntry& entry = manifest.files[file];
  const uint64_t index_bytes = entry.sections * sizeof(Section);
  if (section.offset < index_bytes || section.offset > entry.bytes ||
      sectionBytes(section) > entry.bytes - section.offset)
    return refuse("elements that are not in the file");
  return {};
}

}  // namespace

std::string Manifest::text() const {
  std::string text =
      formatString("%s\ngeneration %" PRIu64 "\nstep %" PRIu64 "\nstate %d\nparams %zu\n",
                   names.empty() ? kMagic : kMagicOfNames, generation, step, state_values, params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    text += formatString("param %zu %s %s", params[i].count, nameOf(params[i].type),
                         params[i].trainable ? "trainable" : "frozen");
    if (!names.empty()) text += " " + names[i];
    text += '\n';
  }
  text += formatString("files %zu\n", files.size());
  for (const FileEntry& file : files)
    text +=
        formatString("file %" PRIu64 " %" PRIu64 " %s\n", file.bytes, file.sections, hex(file.index).c_str());
  return text + "digest " + hex(digestOf(text.data(), text.size())) + "\n";
}

Result<Manifest> Manifest::parse(const std::string& text) {
  HORING_ASSIGN(const std::string body, checkedBody(text));
  std::istringstream in(body);
  std::string magic;
  Manifest manifest;
  uint64_t state = 0, params = 0, files = 0;
  if (!(in >> magic) || (magic != kMagic && magic != kMagicOfNames))
    return damaged("it does not begin with horing-paro-checkpoint-1 or -2");
  if (!readNumber(in, "generation", manifest.generation) || !readNumber(in, "step", manifest.step) ||
      !readNumber(in, "state", state) || !readNumber(in, "params", params))
    return damaged("the head");
  if (state > HORING_PARO_MAX_STATE || params > kMaxParams) return damaged("the numbers of the head");
  manifest.state_values = static_cast<int>(state);
  for (uint64_t i = 0; i < params; ++i) {
    if (!readParam(in, manifest.params.emplace_back())) return damaged("a parameter");
    if (magic == kMagicOfNames && !readName(in, manifest.names.emplace_back())) return damaged("a name");
  }
  HORING_TRY(checkNames(manifest.names));
  if (!readNumber(in, "files", files) || files > kMaxFiles) return damaged("the number of files");
  for (uint64_t i = 0; i < files; ++i) {
    FileEntry& file = manifest.files.emplace_back();
    if (!readNumber(in, "file", file.bytes) || !(in >> file.sections) || !readDigest(in, file.index))
      return damaged("a file");
  }
  return manifest;
}

std::string manifestPath(const std::string& folder) {
  return folder + "/manifest";
}

std::string filePath(const std::string& folder, uint64_t generation, size_t number) {
  return folder + formatString("/shard-%016" PRIx64 "-%zu", generation, number);
}

bool isLeftOver(const std::string& name, uint64_t generation) {
  // Users may have other files named shard-something in the folder.
  uint64_t found = 0;
  size_t number = 0;
  if (std::sscanf(name.c_str(), "shard-%16" SCNx64 "-%zu", &found, &number) != 2) return false;
  const std::string path = filePath("", found, number).substr(1);
  return found != generation && (name == path || name == path + NewFile::kSuffix);
}

Result<Manifest> readManifest(const std::string& folder) {
  HORING_ASSIGN(const OldFile file, OldFile::open(manifestPath(folder)));
  if (file.bytes() > kMaxManifestBytes)
    return makeStatus(Code::kInvalidArgument, "%s has %" PRIu64 " bytes: no manifest has as many",
                      file.path().c_str(), file.bytes());
  std::string text(file.bytes(), '\0');
  HORING_TRY(file.read(0, text.data(), text.size()));
  Result<Manifest> manifest = Manifest::parse(text);
  if (!manifest.ok())
    return makeStatus(Code::kInvalidArgument, "%s: %s", file.path().c_str(),
                      manifest.status().message().c_str());
  return manifest;
}

Status writeManifest(const std::string& folder, const Manifest& manifest) {
  const std::string text = manifest.text();
  HORING_ASSIGN(NewFile file, NewFile::create(manifestPath(folder)));
  HORING_TRY(file.write(text.data(), text.size()));
  HORING_TRY(file.commit());
  return syncFolder(folder);
}

Result<FileEntry> writeFile(const std::string& path, std::span<Piece> pieces) {
  FileEntry entry{.bytes = pieces.size() * sizeof(Section), .sections = pieces.size(), .index = {}};
  Hasher index;
  HORING_ASSIGN(NewFile file, NewFile::create(path));
  for (Piece& piece : pieces) {
    piece.section.offset = entry.bytes;
    piece.section.digest = digestOf(piece.data, sectionBytes(piece.section));
    entry.bytes += sectionBytes(piece.section);
    index.add(&piece.section, sizeof(Section));
  }
  for (const Piece& piece : pieces) HORING_TRY(file.write(&piece.section, sizeof(Section)));
  for (const Piece& piece : pieces) HORING_TRY(file.write(piece.data, sectionBytes(piece.section)));
  HORING_TRY(file.commit());
  entry.index = index.digest();
  return entry;
}

Result<std::vector<Section>> readSections(const std::string& path, const FileEntry& entry) {
  HORING_ASSIGN(const OldFile file, OldFile::open(path));
  if (file.bytes() != entry.bytes || entry.sections > entry.bytes / sizeof(Section))
    return makeStatus(Code::kInvalidArgument, "%s has %" PRIu64 " bytes, and the manifest says %" PRIu64,
                      path.c_str(), file.bytes(), entry.bytes);
  std::vector<Section> sections(entry.sections);
  HORING_TRY(file.read(0, sections.data(), sections.size() * sizeof(Section)));
  if (digestOf(sections.data(), sections.size() * sizeof(Section)) != entry.index)
    return makeStatus(Code::kInvalidArgument, "%s: the index is damaged: its digest is not the manifest's",
                      path.c_str());
  return sections;
}

Status checkSections(const Manifest& manifest, std::span<const Section> sections) {
  auto next = sections.begin();
  for (size_t number = 0; number < manifest.files.size(); ++number)
    for (uint64_t i = 0; i < manifest.files[number].sections; ++i, ++next)
      HORING_TRY(checkSection(manifest, number, *next));
  std::vector<Section> sorted(sections.begin(), sections.end());
  std::sort(sorted.begin(), sorted.end(), [](const Section& a, const Section& b) {
    return std::tuple(a.param, a.kind, a.first) < std::tuple(b.param, b.kind, b.first);
  });
  auto at = sorted.begin();
  for (uint64_t param = 0; param < manifest.params.size(); ++param) {
    const auto [first_kind, end_kind] = kindsOf(manifest, param);
    for (uint32_t kind = first_kind; kind < end_kind; ++kind) {
      uint64_t covered = 0;
      for (; at != sorted.end() && at->param == param && at->kind == kind && at->first == covered; ++at)
        covered += at->count;
      if (covered == manifest.params[param].count) continue;
      return makeStatus(Code::kInvalidArgument,
                        "the checkpoint is no whole one: of %s, value %u, element %" PRIu64
                        " is there twice or not at all",
                        labelOf(manifest.names, param).c_str(), kind, covered);
    }
  }
  if (at == sorted.end()) return {};
  return makeStatus(Code::kInvalidArgument,
                    "the checkpoint has elements of %s twice, from element %" PRIu64 " on",
                    labelOf(manifest.names, at->param).c_str(), at->first);
}

Status verifySection(const OldFile& file, const Section& section, const Names& names) {
  Hasher hasher;
  std::vector<std::byte> block(std::min<uint64_t>(sectionBytes(section), kBlockBytes));
  for (uint64_t done = 0; done < sectionBytes(section); done += block.size()) {
    const size_t bytes = std::min<uint64_t>(block.size(), sectionBytes(section) - done);
    HORING_TRY(file.read(section.offset + done, block.data(), bytes));
    hasher.add(block.data(), bytes);
  }
  if (hasher.digest() == section.digest) return {};
  return makeStatus(Code::kInvalidArgument,
                    "%s: elements %" PRIu64 " to %" PRIu64 " of %s are damaged: their digest is another one",
                    file.path().c_str(), section.first, section.first + section.count - 1,
                    labelOf(names, section.param).c_str());
}

}  // namespace horing::paro
