#include "topology/group_rule.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace horing {
namespace {

TEST(GroupRule, ReadsListsOfHostsAsSlurmWritesThem) {
  EXPECT_TRUE(hostListNames("n1", "n1"));
  EXPECT_TRUE(hostListNames("x,n[01-16,20],y", "n07"));
  EXPECT_TRUE(hostListNames("x,n[01-16,20],y", "n20"));
  EXPECT_TRUE(hostListNames("r[1-2]n[3-4]", "r2n4"));
  EXPECT_TRUE(hostListNames("n[8-12]-ib", "n10-ib"));
  for (const char* host : {"n7", "n17", "n007", "n", "n07x", "x7", "", "n0"})
    EXPECT_FALSE(hostListNames("x,n[01-16,20],y", host)) << host;
  for (const char* list :
       {"n[1-", "n[", "n]", "[", "n[]", "n[a-b]", "n[3-1]", "n[99999999999999999999]", ",,,"})
    EXPECT_FALSE(hostListNames(list, "n1")) << list;
}

TEST(GroupRule, TakesNoTimeForListsOfManyBrackets) {
  std::string item, host(60, '1');
  for (int i = 0; i < 30; ++i) item += "[0-99]";
  EXPECT_FALSE(hostListNames(item + "x", host));  // would be tried in more ways than there is time
  EXPECT_TRUE(hostListNames(item + "x,1[0-9][0-9][0-9]", "1111"));
}

TEST(GroupRule, FindsTheSwitchesAboveAHost) {
  const std::string conf =
      "# the machine room\n"
      "SwitchName=leaf0 Nodes=n[1-4]   LinkSpeed=100\n"
      "switchname=leaf1 nodes=n[5-8] # and more\r\n"
      "SwitchName=spine Switches=leaf[0-1]\n"
      "SwitchName=top Switches=spine,other\n"
      "SwitchName=leaf2 Nodes=m1\n"
      "Nodes=n9\n";
  EXPECT_EQ(switchesAbove(conf, "n4").take(), "top/spine/leaf0");
  EXPECT_EQ(switchesAbove(conf, "n8.cluster.example").take(), "top/spine/leaf1");
  EXPECT_EQ(switchesAbove(conf, "m1").take(), "leaf2");
  EXPECT_NE(switchesAbove(conf, "n9").status().message().find("n9"), std::string::npos);
  EXPECT_FALSE(switchesAbove("", "n1").ok());
  // Whoever is above himself is so for a while only.
  EXPECT_TRUE(switchesAbove("SwitchName=a Nodes=n1 Switches=a\n", "n1").ok());
}

TEST(GroupRule, MakesALabelOrSaysWhyNot) {
  EXPECT_EQ(groupByRule("node", "h").take().label, "");
  EXPECT_EQ(groupByRule("", "h").take().label, "");
  EXPECT_EQ(groupByRule("host:rack*-", "rack12-n3").take().label, "hosts rack12-");
  EXPECT_EQ(groupByRule("host:rack*-", "rack12-n4-x").take().label, "hosts rack12-");
  EXPECT_EQ(groupByRule("host:r*n*", "r1n22").take().label, "hosts r1n22");
  EXPECT_EQ(groupByRule("host:gpu", "gpu7").take().label, "hosts gpu");
  for (const char* rule : {"host:rack*-", "host:", "slurm:/nowhere/topology.conf", "node,host:x", "switch"}) {
    const auto label = groupByRule(rule, "login1");
    ASSERT_FALSE(label.ok()) << rule;
    EXPECT_NE(label.status().message().find("HORING_GROUP_BY"), std::string::npos);
  }
  const std::string path = (std::filesystem::temp_directory_path() / "horing-topology-conf-test").string();
  std::ofstream(path) << "SwitchName=s7 Nodes=login[1-2]\n";
  EXPECT_EQ(groupByRule("slurm:" + path, "login2").take().label, "switch s7");
  EXPECT_EQ(groupByRule("slurm:" + path, "login2").take().switches, "s7");
  EXPECT_EQ(groupByRule("node,slurm:" + path, "login2").take(), (GroupPlace{"", "s7"}));
  EXPECT_NE(groupByRule("slurm:" + path, "login3").status().message().find("no switch lists the host login3"),
            std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace horing
