#include "topology/topology_file.h"

#include <fcntl.h>

#include <cerrno>
#include <fstream>

#include "base/output.h"
#include "topology/hwloc_graph.h"
#include "topology/hwloc_xml.h"
#include "topology/nccl_xml.h"
#include "topology/xml_document.h"

namespace horing {

namespace {

Status in(const char* format, const Status& status) {
  return makeStatus(Code::kInvalidArgument, "%s: %s", format, status.message().c_str());
}

// Whether the text begins with a byte-order mark: XML in UTF-8 or UTF-16 follows, which expat reads.
bool beginsWithMark(const std::string& text) {
  for (const char* const mark : {"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"})
    if (text.starts_with(mark)) return true;
  return false;
}

}  // namespace

Result<MachineGraph> graphFromText(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return makeStatus(Code::kInvalidArgument, "the description is empty");
  if (text[first] != '<' && !beginsWithMark(text)) {
    Result<MachineGraph> graph =
        graphFromSynthetic(text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first));
    return graph.ok() ? std::move(graph) : in("neither XML nor synthetic", graph.status());
  }
  const Result<std::vector<XmlElement>> elements = parseXml(text);
  if (!elements.ok()) return in("XML", elements.status());
  const std::string& root = elements.value()[0].name;
  const bool is_nccl = root == "system";
  if (!is_nccl && root != "topology")
    return makeStatus(Code::kInvalidArgument,
                      "XML that begins with <%.40s>: hwloc's begins with <topology>, NCCL's with <system>",
                      root.c_str());
  Result<MachineGraph> graph =
      is_nccl ? graphFromNcclXml(elements.value()) : graphFromHwlocXml(elements.value());
  return graph.ok() ? std::move(graph) : in(is_nccl ? "NCCL's topology XML" : "hwloc's XML", graph.status());
}

Result<MachineGraph> graphFromFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return systemError(errno, "the topology file %s cannot be read", path.c_str());
  std::string text(kMaxXmlBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return systemError(errno, "the topology file %s cannot be read", path.c_str());
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxXmlBytes)
    return makeStatus(Code::kInvalidArgument, "the topology file %s is larger than %zu bytes", path.c_str(),
                      kMaxXmlBytes);
  Result<MachineGraph> graph = graphFromText(text);
  return graph.ok() ? std::move(graph) : in(path.c_str(), graph.status());
}

Status writeTopologyFile(const MachineGraph& graph, const std::string& path) {
  const Fd file = openOutput(path, O_TRUNC, 0666);
  if (!file.valid()) return systemError(errno, "the topology cannot be written to %s", path.c_str());
  return writeAll(file.get(), toNcclXml(graph), path);
}

}  // namespace horing
