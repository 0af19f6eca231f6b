#pragma once
// One description of a struct's fields for encoding and decoding. A function fields(wire, value) names each field once; `wire` is a
// FieldWriter and `value` const, or a FieldReader that fills it. So the two directions cannot differ.
//
// The function names the fields by a structured binding of all members: a new member without a description does not compile. Where
// other files describe structs that contain this one, a header declares the function, and its file instantiates it for both directions.
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/wire.h"

namespace horing {

// Constrains the `value` of a description to T, const when it is written.
template <typename Value, typename... Structs>
concept Is = (std::same_as<std::remove_const_t<Value>, Structs> || ...);
// Whether the description of this `value` reads it, for checks of the whole value.
template <typename Value>
inline constexpr bool kReads = !std::is_const_v<std::remove_reference_t<Value>>;

class FieldWriter {
 public:
  // Integers, enumerations and doubles, each in as many bytes as it has.
  void numbers(const auto&... values) { (number(values), ...); }
  // The integer `to(value)`; `from` is the way back.
  void numberOf(const auto& value, auto&& to, auto&&) { number(to(value)); }
  void raw(std::span<const std::byte> bytes) { out_.raw(bytes); }
  // Preceded by their lengths.
  void blob(const std::vector<std::byte>& bytes, size_t) { out_.blob(bytes); }
  void text(const std::string& value, size_t limit) { out_.text(value, limit); }
  template <typename Item>
  void list(const std::vector<Item>& items, size_t, auto&& describe) {
    number(static_cast<uint32_t>(items.size()));
    for (const Item& item : items) describe(item);
  }
  template <typename Item>
  void optional(const std::optional<Item>& item, auto&& describe) {
    number(item.has_value());
    if (item) describe(*item);
  }
  // A condition on the fields before that the receiver checks.
  void require(bool) {}

  std::vector<std::byte> take() { return out_.take(); }

 private:
  template <typename Number>
  void number(const Number& value) {
    if constexpr (std::is_enum_v<Number>)
      out_.number(static_cast<std::underlying_type_t<Number>>(value));
    else if constexpr (std::is_same_v<Number, double>)
      out_.number(std::bit_cast<uint64_t>(value));
    else
      out_.number(value);
  }

  WireWriter out_;
};

// Decodes untrusted bytes: it fails if a field does not fit, exceeds its limit or violates a condition.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : in_(bytes) {}

  void numbers(auto&... values) { (number(values), ...); }
  void numberOf(auto& value, auto&& to, auto&& from) {
    decltype(to(value)) read{};
    number(read);
    value = from(read);
  }
  void raw(std::span<std::byte> bytes) {
    const std::span<const std::byte> read = in_.raw(bytes.size());
    std::copy(read.begin(), read.end(), bytes.begin());
  }
  void blob(std::vector<std::byte>& bytes, size_t limit) {
    const std::span<const std::byte> read = in_.blob(limit);
    bytes.assign(read.begin(), read.end());
  }
  void text(std::string& value, size_t limit) { value = in_.text(limit); }
  // The list grows while it is read, so a false count allocates nothing.
  template <typename Item>
  void list(std::vector<Item>& items, size_t most, auto&& describe) {
    const auto count = in_.number<uint32_t>();
    require(count <= most);
    items.clear();
    for (uint32_t i = 0; i < count && !failed(); ++i) describe(items.emplace_back());
  }
  template <typename Item>
  void optional(std::optional<Item>& item, auto&& describe) {
    item.reset();
    if (in_.number<bool>()) describe(item.emplace());
  }
  void require(bool is_so) { is_bad_ = is_bad_ || !is_so; }
  // A field before was missing or not valid: for checks that need valid fields.
  bool failed() const { return is_bad_ || in_.failed(); }

  // All fields were there and valid, and no bytes are left.
  bool complete() const { return !is_bad_ && in_.complete(); }

 private:
  template <typename Number>
  void number(Number& value) {
    if constexpr (std::is_enum_v<Number>)
      value = static_cast<Number>(in_.number<std::underlying_type_t<Number>>());
    else if constexpr (std::is_same_v<Number, double>)
      value = std::bit_cast<double>(in_.number<uint64_t>());
    else
      value = in_.number<Number>();
  }

  WireReader in_;
  bool is_bad_ = false;
};

// By fields(), declared in the namespace of the struct.
std::vector<std::byte> encodeFields(const auto& value) {
  FieldWriter wire;
  fields(wire, value);
  return wire.take();
}
// False: the bytes, which are untrusted, are no such struct.
bool decodeFields(std::span<const std::byte> bytes, auto& value) {
  FieldReader wire(bytes);
  fields(wire, value);
  return wire.complete();
}

}  // namespace horing
