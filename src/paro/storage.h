#pragma once
// Files that are either complete or absent.
#include <cstdint>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace horing::paro {

// A file under a temporary name; commit() renames it atomically after its bytes are on disk. Without commit() the destructor removes it.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&&) = default;
  ~NewFile();

  Status write(const void* data, size_t bytes);
  Status commit();

  // The suffix of the temporary name.
  static constexpr const char* kSuffix = ".new";

 private:
  explicit NewFile(std::string path) : path_(std::move(path)) {}
  std::string temporary() const { return path_ + kSuffix; }

  std::string path_;
  Fd fd_;
};

// An existing file, read at any offset.
class OldFile {
 public:
  static Result<OldFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  // Reads all of the range, or returns an error.
  Status read(uint64_t offset, void* data, size_t bytes) const;

 private:
  OldFile(std::string path, Fd fd, uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}
  std::string path_;
  Fd fd_;
  uint64_t bytes_;
};

// Makes the folder unless it exists.
Status makeFolder(const std::string& folder);
// Makes renames in a folder durable (fsync).
Status syncFolder(const std::string& folder);

}  // namespace horing::paro
