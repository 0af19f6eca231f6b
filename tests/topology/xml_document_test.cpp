#include "topology/xml_document.h"

#include <gtest/gtest.h>

namespace horing {
namespace {

std::string refusal(const std::string& text) {
  const auto elements = parseXml(text);
  return elements.ok() ? "" : elements.status().message();
}

TEST(XmlDocument, IsAListOfElementsInTheirOrder) {
  const auto elements = parseXml("<?xml version=\"1.0\"?>\n<a x=\"1\" y=\"&lt;\">\n<b/>text<c><d/></c></a>");
  ASSERT_TRUE(elements.ok()) << elements.status().toString();
  ASSERT_EQ(elements.value().size(), 4u);
  EXPECT_EQ(*elements.value()[0].attribute("y"), "<");
  EXPECT_EQ(elements.value()[0].attribute("z"), nullptr);
  EXPECT_EQ(elements.value()[0].parent, -1);
  EXPECT_EQ(elements.value()[3].parent, 2);
  EXPECT_EQ(elements.value()[3].line, 3);
}

TEST(XmlDocument, RefusesWhatIsNotWellFormed) {
  for (const char* text :
       {"", "no xml", "<a>", "<a></b>", "<a x=1/>", "<a/><b/>", "<a x=\"1\" x=\"2\"/>", "<a>&nobody;</a>"})
    EXPECT_NE(refusal(text), "") << text;
  EXPECT_NE(refusal("<a>\n\n<b></a>").find("line 3"), std::string::npos);
}

TEST(XmlDocument, RefusesEntityBombsBeforeTheyGoOff) {
  std::string bomb = "<!DOCTYPE b [<!ENTITY l0 \"lol\">";
  for (int level = 1; level < 12; ++level) {
    bomb += "<!ENTITY l" + std::to_string(level) + " \"";
    for (int i = 0; i < 10; ++i) bomb += "&l" + std::to_string(level - 1) + ";";
    bomb += "\">";
  }
  bomb += "]><b>&l11;</b>";
  EXPECT_NE(refusal(bomb).find("bomb"), std::string::npos);
  EXPECT_NE(refusal("<!DOCTYPE b [<!ENTITY x SYSTEM \"/etc/passwd\">]><b a=\"&x;\"/>").find("bomb"),
            std::string::npos);
  EXPECT_NE(refusal("<!DOCTYPE b [<!ENTITY % p SYSTEM \"p.dtd\"> %p;]><b/>").find("bomb"), std::string::npos);
  // hwloc's files name a document type and declare nothing.
  EXPECT_EQ(refusal("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology/>"), "");
}

TEST(XmlDocument, HasLimits) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "<a>";
    for (int i = 0; i < depth; ++i) text += "</a>";
    return text;
  };
  EXPECT_EQ(refusal(nested(kMaxXmlDepth)), "");
  EXPECT_NE(refusal(nested(kMaxXmlDepth + 1)).find("deeper"), std::string::npos);
  const auto wide = [](size_t children) {
    std::string text = "<a>";
    for (size_t i = 0; i < children; ++i) text += "<b/>";
    return text + "</a>";
  };
  EXPECT_EQ(refusal(wide(kMaxXmlElements - 1)), "");
  EXPECT_NE(refusal(wide(kMaxXmlElements)).find("elements"), std::string::npos);
  EXPECT_EQ(refusal("<a b=\"" + std::string(kMaxXmlAttributeBytes, 'x') + "\"/>"), "");
  EXPECT_NE(refusal("<a b=\"" + std::string(kMaxXmlAttributeBytes + 1, 'x') + "\"/>").find("longer"),
            std::string::npos);
  std::string attributes;
  for (size_t i = 0; i <= kMaxXmlAttributes; ++i) attributes += " a" + std::to_string(i) + "=\"\"";
  EXPECT_NE(refusal("<a" + attributes + "/>").find("attributes"), std::string::npos);
  EXPECT_NE(refusal("<a>" + std::string(kMaxXmlBytes, ' ') + "</a>").find("bytes"), std::string::npos);
}

}  // namespace
}  // namespace horing
