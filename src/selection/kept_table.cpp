#include "selection/kept_table.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/cache_folder.h"
#include "base/folder_entries.h"
#include "base/output.h"
#include "base/printable.h"

namespace horing {

namespace {

constexpr const char* kSuffix = ".selection";
constexpr std::string_view kForMark = "# for: ", kVersionsMark = "# made with: ", kDigestMark = "# digest: ";
constexpr size_t kMostShown = 200;
// Libraries with different numbers may predict different times for the same machine. Raise it when the simulator, or a measurement that it
// uses, changes.
constexpr int kModelVersion = 6;

uint64_t digestOf(std::string_view text) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return digest;
}

std::string digestText(std::string_view text) {
  return formatString("%016llx", static_cast<unsigned long long>(digestOf(text)));
}

// Removes a first line that begins with `mark` and returns the rest of that line; nothing: it does not begin so.
std::optional<std::string_view> takeLine(std::string_view& text, std::string_view mark) {
  const size_t end = text.find('\n');
  if (!text.starts_with(mark) || end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(mark.size(), end - mark.size());
  text.remove_prefix(end + 1);
  return line;
}

std::string kernelRelease() {
  utsname names{};
  return ::uname(&names) == 0 ? printable(names.release, 60) : "";
}

std::filesystem::file_time_type writtenAt(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::last_write_time(path, ignored);
}

}  // namespace

std::string keptShapeText(const JobShape& shape, std::vector<int32_t> sizes) {
  std::sort(sizes.begin(), sizes.end(), std::greater());
  std::string text;
  for (auto size = sizes.begin(); size != sizes.end();) {
    const auto next = std::find_if(size, sizes.end(), [&](int32_t other) { return other != *size; });
    text += formatString("%s%d of %d", text.empty() ? "" : ", ", static_cast<int>(next - size), *size);
    size = next;
  }
  return formatString("groups: %s ranks, ranks per core %s; ", text.c_str(),
                      ranksPerCoreText(shape.ranks_per_core));
}

std::string keptVersions() {
  return formatString("model %d, table %016llx, kernel %s", kModelVersion,
                      static_cast<unsigned long long>(SelectionTable::builtIn().digest()),
                      kernelRelease().c_str());
}

std::string keptText(const KeptFor& what, std::string_view table) {
  std::string text;
  for (const auto& [mark, words] : {std::pair(kForMark, what.job), std::pair(kVersionsMark, what.versions),
                                    std::pair(kDigestMark, digestText(table))})
    text += std::string(mark) + words + '\n';
  return text.append(table);
}

Result<SelectionTable> parseKept(const KeptFor& what, std::string_view text) {
  const auto job = takeLine(text, kForMark), versions = takeLine(text, kVersionsMark),
             digest = takeLine(text, kDigestMark);
  const auto unlike = [](const char* wrong, std::string_view theirs, const std::string& mine) {
    return makeStatus(Code::kInvalidArgument, "it is %s: it says '%s', here is '%s'", wrong,
                      printable(theirs, kMostShown).c_str(), mine.c_str());
  };
  if (!job || !versions || !digest)
    return makeStatus(Code::kInvalidArgument, "it does not begin as horing-tune writes it");
  if (*job != what.job) return unlike("for another job", *job, what.job);
  if (*versions != what.versions) return unlike("out of date", *versions, what.versions);
  if (*digest != digestText(text))
    return makeStatus(Code::kInvalidArgument,
                      "it was truncated or changed (pass an edited table by HORING_SELECTION)");
  return SelectionTable::parse(text, "it");
}

std::string keptForLine(std::string_view text) {
  const auto job = takeLine(text, kForMark);
  return job ? printable(*job, kMostShown) : "";
}

std::vector<std::string> KeptTables::paths() const {
  std::vector<std::string> paths;
  for (const std::filesystem::path& path : folderEntries(folder_))
    if (path.extension() == kSuffix && paths.size() < kMostListed) paths.push_back(path.string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string KeptTables::pathFor(const KeptFor& what) const {
  return folder_ + "/" + digestText(what.job) + kSuffix;
}

bool KeptTables::canKeep() const {
  if (folder_.empty()) return false;
  return makeOneFolder(folder_, 0777).ok() && ::access(folder_.c_str(), W_OK | X_OK) == 0;
}

Result<std::optional<SelectionTable>> KeptTables::find(const KeptFor& what) const {
  if (folder_.empty()) return std::optional<SelectionTable>();
  HORING_ASSIGN(const std::optional<std::string> text, readWhole(pathFor(what), kMaxSelectionBytes));
  if (!text) return std::optional<SelectionTable>();
  HORING_ASSIGN(SelectionTable table, parseKept(what, *text));
  return std::optional(std::move(table));
}

std::vector<KeptTables::Found> KeptTables::forShape(const JobShape& shape,
                                                    const std::vector<int32_t>& sizes) const {
  std::vector<std::string> latest = paths();
  std::stable_sort(latest.begin(), latest.end(),
                   [](const std::string& a, const std::string& b) { return writtenAt(a) > writtenAt(b); });
  std::vector<Found> found;
  for (const std::string& path : latest) {
    const Result<std::optional<std::string>> read = readWhole(path, kMaxSelectionBytes);
    if (!read.ok() || !read.value()) continue;
    std::string_view rest = *read.value();
    const auto job = takeLine(rest, kForMark);
    if (!job || !job->starts_with(keptShapeText(shape, sizes))) continue;
    found.push_back(
        {path, printable(*job, kMostShown), parseKept({std::string(*job), keptVersions()}, *read.value())});
  }
  return found;
}

Status KeptTables::keep(const KeptFor& what, std::string_view text) const {
  if (folder_.empty())
    return makeStatus(Code::kInvalidUsage,
                      "there is no folder to keep it in: HORING_CACHE_DIR is off, or neither it nor "
                      "XDG_CACHE_HOME nor HOME names one");
  return replaceWhole(pathFor(what), keptText(what, text));
}

}  // namespace horing
