#include "horing_info/nccl.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "nccl/variables.h"

namespace horing::info {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSoname = "libnccl.so";
constexpr const char* kOnlyInOurs = "horing does not serve";  // a string in every libnccl of horing

bool isNumber(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// The paths at the ends of lines, after `mark`, whose file names begin like NCCL's library.
void collectPaths(std::istream& text, const char* mark, std::set<std::string>& paths) {
  for (std::string line; std::getline(text, line);) {
    const size_t at = line.find(mark);
    const size_t path = at == std::string::npos ? at : line.find('/', at);
    if (path == std::string::npos) continue;
    if (fs::path(line.substr(path)).filename().string().starts_with(kSoname)) paths.insert(line.substr(path));
  }
}

std::string verdict(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  if (content.empty()) return path + ": cannot be read\n";
  return path + (content.find(kOnlyInOurs) != std::string::npos ? ": horing\n" : ": not horing\n");
}

std::string verdicts(const std::set<std::string>& paths) {
  if (paths.empty()) return "no libnccl was loaded\n";
  std::string text;
  for (const std::string& path : paths) text += verdict(path);
  return text;
}

// The dynamic linker's log of loaded libraries, a file for each process.
class LoaderLog {
 public:
  LoaderLog() {
    std::string pattern = (fs::temp_directory_path() / "horing-info-XXXXXX").string();
    if (::mkdtemp(pattern.data())) folder_ = pattern;
  }
  ~LoaderLog() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  LoaderLog(const LoaderLog&) = delete;
  LoaderLog& operator=(const LoaderLog&) = delete;

  bool there() const { return !folder_.empty(); }
  void watchThisProcess() const {
    ::setenv("LD_DEBUG", "files", 1);
    ::setenv("LD_DEBUG_OUTPUT", (folder_ / "loaded").c_str(), 1);
  }
  std::set<std::string> paths() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      std::ifstream file(entry.path());
      collectPaths(file, "calling init: ", found);
    }
    return found;
  }

 private:
  fs::path folder_;
};

Result<std::string> librariesOfCommand(const std::vector<std::string>& command) {
  const LoaderLog log;
  if (!log.there()) return systemError(errno, "making a folder for the linker's output");
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return systemError(errno, "starting the command");
  if (child == 0) {
    log.watchThisProcess();
    ::execvp(words[0], words.data());
    std::fprintf(stderr, "horing-info: %s: %s\n", words[0], std::strerror(errno));
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return makeStatus(Code::kInvalidArgument, "%s ended with 127: no such program?", words[0]);
  return verdicts(log.paths());
}

std::string joined(const std::vector<const char*>& names) {
  std::string text;
  for (const char* const name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

}  // namespace

std::string ncclText() {
  std::string text = "Variables of NCCL that are set\n";
  for (const std::string& name : nccl::namesThatAreSet())
    if (const std::optional<nccl::Found> found = nccl::find(name))
      text += "  " + name + "=" + found->value + " (" + found->where + "): " + nccl::fateOf(name) + "\n";
  text += "\nThose that mean something here: HORING_ variables win where both are set\n";
  for (const nccl::Mapping& mapping : nccl::mappings()) {
    const bool same = mapping.kind == nccl::Mapping::Kind::kSame;
    if (!mapping.from.empty())
      text += "  " + joined(mapping.from) + (same ? ": " : ", translated: ") + mapping.own + "\n";
  }
  for (const char* const name : nccl::ownVariables()) text += std::string("  ") + name + "\n";
  text += "\nThose that are accepted and change nothing\n";
  for (const nccl::Accepted& accepted : nccl::acceptedVariables())
    text += std::string("  ") + accepted.name + ": " + accepted.why + "\n";
  return text;
}

Result<std::string> ncclLibrariesOf(const std::vector<std::string>& pid_or_command) {
  if (pid_or_command.size() != 1 || !isNumber(pid_or_command[0])) return librariesOfCommand(pid_or_command);
  const std::string path = "/proc/" + pid_or_command[0] + "/maps";
  std::ifstream maps(path);
  if (!maps) return systemError(errno, "reading %s", path.c_str());
  std::set<std::string> found;
  collectPaths(maps, " /", found);
  return verdicts(found);
}

}  // namespace horing::info
