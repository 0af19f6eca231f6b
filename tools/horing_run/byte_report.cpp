#include "horing_run/byte_report.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

namespace horing::run {

namespace {
nlohmann::ordered_json difference(uint64_t before, uint64_t after) {
  return {{"before", before}, {"after", after}, {"during", after - before}};
}
}  // namespace

Status writeByteReport(const std::string& path, const EmulatedNetwork& network,
                       const std::vector<InterfaceCounters>& before,
                       const std::vector<InterfaceCounters>& after) {
  const NetworkSpec& spec = network.spec();
  nlohmann::ordered_json report = {{"nodes", spec.nodes},
                                   {"rails", spec.rails},
                                   {"rate_mbit", network.slowestRate()},
                                   {"rates_mbit", spec.rates_mbit}};
  report["interfaces"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < before.size(); ++i)
    report["interfaces"].push_back(
        {{"node", before[i].node},
         {"interface", before[i].interface},
         {"received_bytes", difference(before[i].received_bytes, after[i].received_bytes)},
         {"sent_bytes", difference(before[i].sent_bytes, after[i].sent_bytes)}});
  std::ofstream file(path);
  file << report.dump(2) << '\n';
  file.close();
  if (!file) return systemError(errno, "writing the byte report to %s", path.c_str());
  return {};
}

}  // namespace horing::run
