// Jobs of four ranks that are bound in turns to two CPUs, each of which a file makes a NUMA node.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "../../temporary_folder.h"
#include "program.h"

namespace horing::test {
namespace {

class JobMapOfBoundRanks : public testing::Test {
 protected:
  void SetUp() override {
    cpu_set_t set;
    CPU_ZERO(&set);
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    for (size_t cpu = 0; cpu < 32; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus_.push_back(cpu);
    if (cpus_.size() < 2) GTEST_SKIP() << "needs two CPUs";
    write("machine.xml", "16");
  }

  void write(const char* name, const char* nic_gbit, const char* nics = "eth") const {
    std::ofstream file(folder_ / name);
    file << "<system>";
    for (int numa = 0; numa < 2; ++numa)
      file << "<cpu numaid=\"" << numa << "\" affinity=\"" << std::hex
           << (1u << cpus_[static_cast<size_t>(numa)]) << "\"><nic><net name=\"" << nics << numa
           << "\" speed=\"" << nic_gbit << "000\"/></nic></cpu>";
    file << "</system>";
  }

  Outcome run(const std::string& environment, const std::vector<std::string>& nodes = {}) const {
    const std::string bind =
        "taskset -c $((RANK % 2 ? " + std::to_string(cpus_[1]) + " : " + std::to_string(cpus_[0]) + ")) ";
    const std::string script =
        environment + " HORING_DEBUG=info " + bind + HORING_PERF_PROGRAM " -b 1K -e 1K -n 1 -w 0";
    std::vector<std::string> command = {HORING_RUN_PROGRAM, "-n", "4"};
    command.insert(command.end(), nodes.begin(), nodes.end());
    command.insert(command.end(), {"--", "sh", "-c", script});
    return runProgram(command);
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  std::vector<size_t> cpus_;
  const test::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

TEST_F(JobMapOfBoundRanks, LaysTheRingAlongNumaNodes) {
  const Outcome outcome = run("HORING_TOPO_FILE=" + path("machine.xml"));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const std::string said = outcome.output + outcome.errors;
  EXPECT_NE(said.find("ring: 0 > 2 > 1 > 3 > back"), std::string::npos) << said;
  EXPECT_NE(said.find("on numa 1, near eth1 1 GB/s"), std::string::npos) << said;
}

// Ranks 0 and 2 are near to r0 of their nodes, 1 and 3 to r1.
TEST_F(JobMapOfBoundRanks, SendsOverTheInterfaceThatIsNearToBothRanks) {
  HORING_NEEDS_NODES();
  write("rails.xml", "1", "r");
  const std::vector<std::string> nodes = {"--nodes", "2", "--rails", "2"};
  const auto links = [&](const std::string& environment) {
    const Outcome outcome = run("HORING_ALGO=ho_ring " + environment, nodes);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    std::string found;
    std::istringstream said(outcome.output + outcome.errors);
    for (std::string line; std::getline(said, line);)
      for (const char* link : {"linked to rank 2: socket r", "linked to rank 3: socket r"})
        if (const size_t at = line.find(link); at != std::string::npos)
          found += line.substr(at + 10, 17) + (line.find("more streams") < line.size() ? "+ " : " ");
    return found;
  };
  const std::string by_rail = links("HORING_TOPO_FILE=" + path("rails.xml"));
  EXPECT_NE(by_rail.find("rank 2: socket r0 "), std::string::npos) << by_rail;
  EXPECT_NE(by_rail.find("rank 3: socket r1 "), std::string::npos) << by_rail;
  EXPECT_EQ(by_rail.find('+'), std::string::npos) << by_rail;
  EXPECT_NE(links("").find("rank 2: socket r0+"), std::string::npos) << "nowhere in particular: both";
}

TEST_F(JobMapOfBoundRanks, KeepsThePlainOrderWhereRanksContradictEachOther) {
  write("other.xml", "8");
  const Outcome outcome = run("HORING_TOPO_FILE=$([ $RANK = 3 ] && echo " + path("other.xml") + " || echo " +
                              path("machine.xml") + ")");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const std::string said = outcome.output + outcome.errors;
  EXPECT_NE(said.find("rank 3 sees nic eth"), std::string::npos) << said;
  EXPECT_NE(said.find("ring: 0 > 1 > 2 > 3 > back"), std::string::npos) << said;
}

TEST_F(JobMapOfBoundRanks, KeepsThePlainOrderWhereResultsShallBeReproducible) {
  const Outcome outcome = run("HORING_REPRODUCIBLE=1 HORING_TOPO_FILE=" + path("machine.xml"));
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE((outcome.output + outcome.errors).find("ring: 0 > 1 > 2 > 3 > back"), std::string::npos);
}

TEST_F(JobMapOfBoundRanks, WritesWhatWasFoundAndRefusesWhatCannotBeRead) {
  EXPECT_EQ(run("HORING_TOPO_FILE=" + path("machine.xml") + " HORING_TOPO_DUMP=" + path("dump.xml")).code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("dump.xml")));
  EXPECT_EQ(run("HORING_TOPO_FILE=" + path("dump.xml")).code, 0);
  const Outcome outcome = run("HORING_TOPO_FILE=" + path("none.xml"));
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE((outcome.output + outcome.errors).find("none.xml"), std::string::npos);
}

TEST_F(JobMapOfBoundRanks, FormsGroupsByRule) {
  std::ofstream(folder_ / "topology.conf") << "SwitchName=s7 Nodes=none,$(hostname)\n";
  const Outcome outcome = run("HORING_GROUP_BY=slurm:" + path("topology.conf"));
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE((outcome.output + outcome.errors).find("no switch lists the host"), std::string::npos);
  EXPECT_EQ(run("HORING_GROUP_BY=host:$(hostname)").code, 0);
}

// One rank cannot determine its NVLink domain: all ranks get the reason. An empty file overrides the machine's NVML, if it has one.
TEST_F(JobMapOfBoundRanks, FailsAsAWholeWhereOneRankHasNoNvLinkDomain) {
  std::ofstream(folder_ / "libnvidia-ml.so.1").flush();
  const Outcome outcome = run("LD_LIBRARY_PATH=" + folder_.string() +
                              " HORING_GROUP_BY=$([ $RANK = 2 ] && echo nvlink || echo node)");
  EXPECT_NE(outcome.code, 0);
  const std::string said = outcome.output + outcome.errors;
  for (const char* rank : {"rank 0", "rank 1", "rank 3"})
    EXPECT_NE(said.find(rank), std::string::npos) << said;
  EXPECT_NE(said.find("HORING_GROUP_BY=nvlink: NVML cannot be opened"), std::string::npos) << said;
}

// Four nodes, by name, under two switches.
TEST_F(JobMapOfBoundRanks, LaysNodesUnderOneSwitchOneAfterTheOther) {
  char host[256] = "";
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  for (const char* leaf : {"0", "1"})
    std::ofstream(folder_ / (std::string("leaf") + leaf))
        << "SwitchName=leaf" << leaf << " Nodes=" << host << "\nSwitchName=top Switches=leaf[0-1]\n";
  const Outcome outcome =
      run("HORING_HOSTID=node$RANK HORING_GROUP_BY=node,slurm:" + path("leaf") + "$((RANK % 2))");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const std::string said = outcome.output + outcome.errors;
  EXPECT_NE(said.find("ring: 0 > 2 > 1 > 3 > back"), std::string::npos) << said;
}

}  // namespace
}  // namespace horing::test
