#include "topology/xml_document.h"

#include <expat.h>

#include <cstdint>
#include <memory>
#include <type_traits>

namespace horing {

const std::string* XmlElement::attribute(std::string_view attribute_name) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute_name) return &value;
  return nullptr;
}

namespace {

struct FreeParser {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};
using ParserOwner = std::unique_ptr<std::remove_pointer_t<XML_Parser>, FreeParser>;

// The state of the callbacks. The first error stops the parser.
struct Reading {
  XML_Parser parser = nullptr;
  std::vector<XmlElement> elements;
  std::vector<int32_t> open;
  const char* refusal = nullptr;

  void refuse(const char* why) {
    if (!refusal) refusal = why;
    XML_StopParser(parser, XML_FALSE);
  }
};

// Since Expat 2.9 the function of the older name, whose result depends on how Expat was built, is deprecated.
uint64_t currentLine(XML_Parser parser) {
#if XML_MAJOR_VERSION * 100 + XML_MINOR_VERSION >= 209
  return XML_GetCurrentLineNumber64(parser);
#else
  return XML_GetCurrentLineNumber(parser);
#endif
}

void startElement(void* user, const XML_Char* name, const XML_Char** attributes) {
  Reading& reading = *static_cast<Reading*>(user);
  if (reading.refusal) return;
  if (reading.elements.size() >= kMaxXmlElements) return reading.refuse("more elements than 65,536");
  if (reading.open.size() >= static_cast<size_t>(kMaxXmlDepth))
    return reading.refuse("elements nested deeper than 64");
  XmlElement element;
  element.name = name;
  element.parent = reading.open.empty() ? -1 : reading.open.back();
  element.line = static_cast<int32_t>(currentLine(reading.parser));
  for (; *attributes; attributes += 2) {
    if (element.attributes.size() >= kMaxXmlAttributes)
      return reading.refuse("more than 64 attributes at one element");
    element.attributes.emplace_back(attributes[0], attributes[1]);
    if (element.attributes.back().second.size() > kMaxXmlAttributeBytes)
      return reading.refuse("an attribute longer than 16 KiB");
  }
  reading.open.push_back(static_cast<int32_t>(reading.elements.size()));
  reading.elements.push_back(std::move(element));
}

void endElement(void* user, const XML_Char*) {
  Reading& reading = *static_cast<Reading*>(user);
  if (!reading.refusal) reading.open.pop_back();
}

void characters(void* user, const XML_Char* text, int length) {
  Reading& reading = *static_cast<Reading*>(user);
  if (!reading.refusal && !reading.open.empty())
    reading.elements[static_cast<size_t>(reading.open.back())].text.append(text, static_cast<size_t>(length));
}

void startDoctype(void* user, const XML_Char*, const XML_Char*, const XML_Char*, int has_internal_subset) {
  if (has_internal_subset)
    static_cast<Reading*>(user)->refuse("a document type with declarations of its own, which may be a bomb");
}

void entityDeclaration(void* user, const XML_Char*, int, const XML_Char*, int, const XML_Char*,
                       const XML_Char*, const XML_Char*, const XML_Char*) {
  static_cast<Reading*>(user)->refuse("an entity declaration, which may be a bomb");
}

}  // namespace

Result<std::vector<XmlElement>> parseXml(std::string_view text) {
  if (text.size() > kMaxXmlBytes)
    return makeStatus(Code::kInvalidArgument, "XML of %zu bytes: at most %zu are read", text.size(),
                      kMaxXmlBytes);
  const ParserOwner parser(XML_ParserCreate(nullptr));
  if (!parser) return makeStatus(Code::kSystemError, "no memory for an XML parser");
  Reading reading;
  reading.parser = parser.get();
  XML_SetUserData(parser.get(), &reading);
  XML_SetElementHandler(parser.get(), startElement, endElement);
  XML_SetCharacterDataHandler(parser.get(), characters);
  XML_SetStartDoctypeDeclHandler(parser.get(), startDoctype);
  XML_SetEntityDeclHandler(parser.get(), entityDeclaration);
  const bool good =
      XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE) == XML_STATUS_OK;
  if (good && !reading.refusal) return std::move(reading.elements);
  const XML_Error error = XML_GetErrorCode(parser.get());
  const char* why = reading.refusal ? reading.refusal : XML_ErrorString(error);
  // The usual cause, which expat's message does not name.
  const bool ends_early =
      !reading.refusal && (error == XML_ERROR_NO_ELEMENTS || error == XML_ERROR_UNCLOSED_TOKEN);
  return makeStatus(Code::kInvalidArgument, "line %llu: %s%s",
                    static_cast<unsigned long long>(currentLine(parser.get())), why,
                    ends_early ? ": the end of the file is missing" : "");
}

}  // namespace horing
