// Feeds every target its corpus, without libFuzzer: fuzz_replay FOLDER [TARGET [FILE...]].
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "targets.h"

namespace {

namespace fs = std::filesystem;

void feed(const horing::fuzz::Target& target, const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  // Exactly as large as the input, so that reading past its end is seen.
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(text.data()),
                                     reinterpret_cast<const std::byte*>(text.data()) + text.size());
  std::printf("%s %s\n", target.name, file.filename().c_str());
  std::fflush(stdout);
  target.run(bytes);
}

// How many files.
int replay(const horing::fuzz::Target& target, const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder))
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  target.run({});
  for (const fs::path& file : files) feed(target, file);
  return static_cast<int>(files.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: fuzz_replay CORPUS_FOLDER [TARGET [FILE...]]\n");
    return 2;
  }
  const std::string only = argc > 2 ? argv[2] : "";
  for (int i = 3; i < argc; ++i)
    if (const auto* target = horing::fuzz::findTarget(only)) feed(*target, argv[i]);
  if (argc > 3) return 0;
  int empty = 0;
  for (const horing::fuzz::Target& target : horing::fuzz::targets()) {
    if (!only.empty() && only != target.name) continue;
    const int files = replay(target, fs::path(argv[1]) / target.name);
    if (files == 0) {
      std::printf("FAILED: %s has no corpus\n", target.name);
      ++empty;
    }
  }
  return empty == 0 ? 0 : 1;
}
