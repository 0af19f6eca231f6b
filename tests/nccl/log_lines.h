#pragma once
// NCCL's log of this process in a file, and its lines of communicators as tools parse them.
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "../temporary_folder.h"
#include "clients.h"

struct InitLine {
  int shown_gpu;  // in brackets
  std::string function;
  std::string comm;  // the handle, as %p prints it
  int rank, ranks, gpu;
  std::string bus, origin, event;
};

class NcclLog {
 public:
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<InitLine> inits() const {
    static const std::regex form(
        R"(\S+:\d+:\d+ \[(\d+)\] NCCL INFO (\w+) comm (0x\w+) rank (\d+) nranks (\d+) cudaDev (-?\d+) nvmlDev -?\d+ )"
        R"(busId (\w+) ((?:commId|parent) .*) - Init (\w+))");
    std::vector<InitLine> found;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      std::smatch part;
      if (std::regex_match(line, part, form))
        found.push_back({std::stoi(part[1]), part[2], part[3], std::stoi(part[4]), std::stoi(part[5]),
                         std::stoi(part[6]), part[7], part[8], part[9]});
    }
    return found;
  }

 private:
  const horing::test::TemporaryFolder folder_;
  const std::string path_ = folder_.path().string() + "/log";
  const Variable file_{"NCCL_DEBUG_FILE", path_}, level_{"NCCL_DEBUG", "INFO"};
};

inline std::string printed(const void* comm) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", comm);
  return text;
}

// Of the communicators in this order, each made by a rank of its own: one line of each event, of this function. Returns the origins, one
// for each, which both lines have.
inline std::vector<std::string> expectInits(const NcclLog& log, const std::string& function,
                                            const std::vector<ncclComm_t>& comms) {
  std::vector<std::string> origins;
  const std::vector<InitLine> all = log.inits();
  for (size_t rank = 0; rank < comms.size(); ++rank) {
    std::map<std::string, std::string> events;
    for (const InitLine& line : all) {
      if (line.comm != printed(comms[rank]) || line.function != function) continue;
      EXPECT_EQ(line.rank, static_cast<int>(rank));
      EXPECT_EQ(line.ranks, static_cast<int>(comms.size()));
      EXPECT_TRUE(events.emplace(line.event, line.origin).second) << "twice: " << line.event;
    }
    EXPECT_EQ(events.size(), 2U) << "of rank " << rank << " in\n" << log.text();
    EXPECT_EQ(events["START"], events["COMPLETE"]);
    origins.push_back(events["START"]);
  }
  return origins;
}
