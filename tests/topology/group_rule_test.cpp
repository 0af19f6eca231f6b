#include "topology/group_rule.h"

#include <gtest/gtest.h>

#include <chrono>
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
}

std::string whyNot(const std::string& conf, const std::string& host) {
  const Result<std::string> above = switchesAbove(conf, host);
  return above.ok() ? "" : above.status().message();
}

TEST(GroupRule, RefusesSwitchesAboveThemselves) {
  EXPECT_EQ(whyNot("SwitchName=a Nodes=n1 Switches=a\n", "n1"), "a switch is above itself: a");
  const std::string cycle =
      "SwitchName=leaf Nodes=n1\nSwitchName=b Switches=leaf,d\n"
      "SwitchName=c Switches=b\nSwitchName=d Switches=c\nSwitchName=other Nodes=n2\n";
  EXPECT_EQ(whyNot(cycle, "n1"), "a switch is above itself: b");
  EXPECT_EQ(switchesAbove(cycle, "n2").take(), "other") << "who is not below it need not care";
}

TEST(GroupRule, TakesTheFirstOfSeveralThatListOneHostOrSwitch) {
  const std::string conf =
      "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]\nSwitchName=a Nodes=n4\n"
      "SwitchName=top Switches=a,b\nSwitchName=top2 Switches=[a-b],b\n";
  EXPECT_EQ(switchesAbove(conf, "n2").take(), "top/a");
  EXPECT_EQ(switchesAbove(conf, "n3").take(), "top/b");
  EXPECT_EQ(switchesAbove(conf, "n4").take(), "top/a") << "one name, one switch";
}

TEST(GroupRule, SurvivesAbsurdFiles) {
  EXPECT_EQ(switchesAbove("SwitchName=s Nodes=n[0-18446744073709551615]\n", "n18446744073709551615").take(),
            "s");
  EXPECT_NE(whyNot("SwitchName=s Nodes=n[0-99999999999999999999]\n", "n1"), "");
  EXPECT_NE(whyNot("SwitchName=x/y Nodes=n1\n", "n1").find("slash: x/y"), std::string::npos);
  EXPECT_NE(whyNot("SwitchName=" + std::string(5000, 'x') + " Nodes=n1\n", "n1").find("too long: xxx"),
            std::string::npos);
  EXPECT_EQ(whyNot("SwitchName=\x1b[2J Nodes=n1 Switches=\x1b[2J", "n1").find('\x1b'), std::string::npos);
  std::string tower = "SwitchName=s0 Nodes=n1\n";
  for (int level = 1; level < 1000; ++level)
    tower += formatString("SwitchName=s%d Switches=s%d\n", level, level - 1);
  const std::string path = switchesAbove(tower, "n1").take();
  EXPECT_TRUE(path.starts_with("s15/s14/") && path.ends_with("/s1/s0")) << path;
}

// Three MiB of ranges in each bracket, of which only the last ones match, and a host with all the digits that its name can have.
TEST(GroupRule, GivesUpOnListsThatAreTooLong) {
  std::string ranges;
  while (ranges.size() < size_t{3} << 20) ranges += "2-3,";
  std::string conf = "SwitchName=s Nodes=";
  for (int bracket = 0; bracket < 4; ++bracket) conf += "[" + ranges + "1-9999999999]";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(whyNot(conf + "x\n", std::string(63, '1')).find("too long"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
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

TEST(GroupRule, KnowsNvLinkDomainsThatSpanNodes) {
  const auto place = [](const char* fabric, const std::string& gpu) {
    setenv("FAKE_NVML_FABRIC", fabric, 1);
    Result<GroupPlace> found = groupByRule("nvlink", "h", gpu, HORING_FAKE_NVML);
    unsetenv("FAKE_NVML_FABRIC");
    return found;
  };
  EXPECT_EQ(place("577", "0000:3b:00.0").take().label, "nvlink abababababababababababababababab clique 5");
  EXPECT_EQ(place("577", "0000:5e:00.0").take(), place("557", "0000:d8:00.0").take()) << "on two nodes";
  EXPECT_EQ(place("000", "0000:3b:00.0").take(), GroupPlace()) << "the node, where NVLink ends there";
  const std::string wrong = place(".77", "0000:3b:00.0").status().message();
  EXPECT_NE(wrong.find("HORING_GROUP_BY=nvlink: GPU 0000:3b:00.0 has not joined"), std::string::npos)
      << wrong;
  EXPECT_FALSE(groupByRule("nvlink", "h", "", "/nowhere/libnvidia-ml.so.1").ok());
}

}  // namespace
}  // namespace horing
