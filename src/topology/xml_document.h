#pragma once
// A small XML file as a list of elements, read by expat.
//
// The bytes are untrusted. Refused, besides malformed XML: entities and document types with an internal subset (entity bombs need one), and
// anything beyond the limits below.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace horing {

inline constexpr size_t kMaxXmlBytes = size_t{8} << 20;
inline constexpr size_t kMaxXmlElements = 65536;
inline constexpr size_t kMaxXmlAttributes = 64;         // per element
inline constexpr size_t kMaxXmlAttributeBytes = 16384;  // per value: a set of 32,768 CPUs takes 9 KiB
inline constexpr int kMaxXmlDepth = 64;

struct XmlElement {
  std::string name;
  int32_t parent = -1;  // index of an earlier element; -1: the root
  int32_t line = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  // between its tags, without its children's text

  // nullptr: no such attribute.
  const std::string* attribute(std::string_view attribute_name) const;
};

// In the order of the file; at least the root. Errors name the line.
Result<std::vector<XmlElement>> parseXml(std::string_view text);

}  // namespace horing
