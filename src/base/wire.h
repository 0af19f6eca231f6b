#pragma once
// Writes and reads the little-endian fields of control messages. A reader never goes past its end: the first field that does not
// fit makes it fail, and every later read returns zero or nothing.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace horing {

class WireWriter {
 public:
  template <typename Number>
  void number(Number value) {
    static_assert(std::is_integral_v<Number>);
    for (size_t byte = 0; byte < sizeof(Number); ++byte)
      bytes_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * byte)));
  }
  void raw(std::span<const std::byte> data) { bytes_.insert(bytes_.end(), data.begin(), data.end()); }
  // Preceded by the length (4 bytes).
  void blob(std::span<const std::byte> data) {
    number(static_cast<uint32_t>(data.size()));
    raw(data);
  }
  // As blob(), cut at `limit` bytes.
  void text(std::string_view value, size_t limit) { blob(std::as_bytes(std::span(value.substr(0, limit)))); }

  std::vector<std::byte> take() { return std::move(bytes_); }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename Number>
  Number number() {
    static_assert(std::is_integral_v<Number>);
    const std::span<const std::byte> field = raw(sizeof(Number));
    uint64_t value = 0;
    for (size_t byte = 0; byte < field.size(); ++byte)
      value |= static_cast<uint64_t>(field[byte]) << (8 * byte);
    return static_cast<Number>(value);
  }
  std::span<const std::byte> raw(size_t size) {
    if (failed_ || size > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::span<const std::byte> field = rest_.first(size);
    rest_ = rest_.subspan(size);
    return field;
  }
  std::span<const std::byte> blob(size_t limit) {
    const uint32_t size = number<uint32_t>();
    if (size > limit) failed_ = true;
    return raw(size);
  }
  // Bytes that would disturb a terminal or a log line become '?'.
  std::string text(size_t limit) {
    std::string value;
    for (const std::byte byte : blob(limit)) {
      const char letter = static_cast<char>(byte);
      value.push_back(letter >= 0x20 && letter < 0x7f ? letter : '?');
    }
    return value;
  }

  bool failed() const { return failed_; }
  // All fields were there, and no bytes are left.
  bool complete() const { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace horing
