#include "schedule/text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "build_all.h"

namespace horing {
namespace {

std::string textOf(const std::vector<Schedule>& all) {
  std::string text;
  for (const Schedule& schedule : all) text += formatSchedule(schedule);
  return text;
}

struct Golden {
  const char* file;
  const char* algorithm;
  Collective collective;
  Shape shape;
};
const Golden kGolden[] = {
    {"ring_all_reduce_1x4.txt", "ring", Collective::kAllReduce, {1, 4}},
    {"ring_reduce_scatter_1x4.txt", "ring", Collective::kReduceScatter, {1, 4}},
    {"ring_all_gather_1x4.txt", "ring", Collective::kAllGather, {1, 4}},
    {"ho_ring_all_reduce_2x3.txt", "ho_ring", Collective::kAllReduce, {2, 3}},
    {"ho_ring_reduce_scatter_2x3.txt", "ho_ring", Collective::kReduceScatter, {2, 3}},
    {"ho_ring_all_gather_2x3.txt", "ho_ring", Collective::kAllGather, {2, 3}},
    {"peer_read_all_reduce_1x3.txt", "peer_read", Collective::kAllReduce, {1, 3}},
    {"peer_read_all_gather_1x3.txt", "peer_read", Collective::kAllGather, {1, 3}},
    {"peer_write_all_reduce_1x3.txt", "peer_write", Collective::kAllReduce, {1, 3}},
    {"peer_write_all_gather_1x3.txt", "peer_write", Collective::kAllGather, {1, 3}},
};

// A change of a schedule shows here as a change of text to be read. HORING_TESTS_WRITE_GOLDEN=1 writes the files anew.
TEST(ScheduleText, AgreesWithGoldenFiles) {
  for (const Golden& golden : kGolden) {
    const std::string path = std::string(HORING_GOLDEN_DIR) + "/" + golden.file;
    const std::vector<Schedule> all = buildAll(golden.algorithm, golden.collective, golden.shape);
    if (std::getenv("HORING_TESTS_WRITE_GOLDEN")) std::ofstream(path) << textOf(all);
    std::ifstream file(path);
    ASSERT_TRUE(file.is_open()) << path;
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), textOf(all)) << golden.file;
    Result<std::vector<Schedule>> parsed = parseSchedules(text.str());
    ASSERT_TRUE(parsed.ok()) << parsed.status().toString();
    EXPECT_TRUE(parsed.value() == all) << golden.file;
  }
}

TEST(ScheduleText, GivesEveryScheduleBack) {
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (Collective collective : kEveryCollective)
      for (const Shape& shape : {Shape{1, 1}, Shape{1, 5}, Shape{2, 1}, Shape{3, 4}, Shape{4, 2}}) {
        if (!algorithm.has(collective)) continue;
        const std::vector<Schedule> all =
            buildAll(algorithm.name, collective, shape, rootsOf(collective, shape.ranks()).back());
        Result<std::vector<Schedule>> parsed = parseSchedules(textOf(all));
        ASSERT_TRUE(parsed.ok()) << parsed.status().toString();
        EXPECT_TRUE(parsed.value() == all) << algorithm.name;
      }
}

TEST(ScheduleText, KeepsBlocksThatChangeNothing) {
  Schedule schedule;
  schedule.algorithm = "a-1.b_C";
  schedule.lanes.resize(2);
  schedule.lanes[1].blocks = {
      {{}, 0, 0, 0},
      {{{0, {{Source::Kind::kScratch, 7}}, {Keep::Kind::kScratch, 3}, 9, {1, 2, -3}}}, 1, -5, 0},
      {{}, 1, 0, 0}};
  Result<std::vector<Schedule>> parsed = parseSchedules(formatSchedule(schedule));
  ASSERT_TRUE(parsed.ok()) << parsed.status().toString();
  ASSERT_EQ(parsed.value().size(), 1u);
  EXPECT_TRUE(parsed.value()[0] == schedule);
}

TEST(ScheduleText, TakesCommentsAndLooseSpacing) {
  Result<std::vector<Schedule>> parsed = parseSchedules(
      "# two ranks\r\n\nschedule x all_gather position 0 of 2 grid 1 x 2 scratch 0 # header\n"
      "\tlane 0\nonce\nchunk 0=in->out,send 1\n  chunk 1 = recv 1 -> out");
  ASSERT_TRUE(parsed.ok()) << parsed.status().toString();
  const std::vector<Step>& body = parsed.value()[0].lanes[0].blocks[0].body;
  ASSERT_EQ(body.size(), 2u);
  EXPECT_EQ(body[0], (Step{0, {{Source::Kind::kIn, 0}}, {Keep::Kind::kOut, 0}, 1, {}}));
  EXPECT_EQ(body[1], (Step{1, {{Source::Kind::kRecv, 1}}, {Keep::Kind::kOut, 0}, -1, {}}));
}

TEST(ScheduleText, EmptyTextHoldsNoSchedule) {
  Result<std::vector<Schedule>> parsed = parseSchedules("");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed.value().empty());
}

TEST(ScheduleText, NamesLineAndColumnOfAnError) {
  const std::string header = "schedule x all_reduce position 0 of 2 grid 1 x 2 scratch 0\n";
  const std::string step = header + "lane 0\nonce\n";
  const std::pair<std::string, const char*> bad[] = {
      {"lane 0", "line 1, column 1: expected 'schedule', but found 'lane'"},
      {"schedule",
       "line 1, column 9: expected the name of the algorithm of at most 64 letters, but the line ends"},
      {"schedule " + std::string(65, 'x'), "line 1, column 10: expected the name"},
      {"schedule x all position",
       "line 1, column 12: expected all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, "
       "scatter or all_to_all, but found 'all'"},
      {"schedule x all_reduce position one",
       "line 1, column 32: expected the position, a number, but found 'one'"},
      {"schedule x all_reduce position 99999999999", "line 1, column 32: expected the position, a number"},
      {header + "once", "line 2, column 1: expected 'lane', but found 'once'"},
      {header + "lane 1", "line 2, column 6: expected lane 0, for lanes are listed in order, but found '1'"},
      {header + "lane 0\nchunk 0 = in", "line 3, column 1: expected 'once' or 'repeat', but found 'chunk'"},
      {header + "lane 0\nrepeat 2", "line 3, column 9: expected 'stride', but the line ends"},
      {step + "chunk 0 = ",
       "line 4, column 11: expected a source: in, out, recv or scratch, but the line ends"},
      {step + "chunk 0 = in + recv",
       "line 4, column 20: expected the position to receive from, a number, but the line ends"},
      {step + "chunk 0 = in -> 3", "line 4, column 17: expected 'send', but found '3'"},
      {step + "chunk 0 = in -> out send 1",
       "line 4, column 21: expected the end of the line, but found 'send'"},
      {step + "chunk 0 = in after lane 0", "line 4, column 26: expected 'step', but the line ends"},
      {step + "chunk 0 = in \x01", "line 4, column 14: expected the end of the line, but found '?'"},
      {step + "twice",
       "line 4, column 1: expected 'chunk', 'await', 'signal', 'once', 'repeat', 'lane' or 'schedule', but "
       "found 'twice'"},
  };
  for (const auto& [text, message] : bad) {
    const Result<std::vector<Schedule>> parsed = parseSchedules(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(parsed.status().message().starts_with(message))
        << parsed.status().message() << "\nexpected " << message;
  }
}

TEST(ScheduleText, KeepsItsLimits) {
  std::string text = "schedule x all_reduce position 0 of 2 grid 1 x 2 scratch 0\n";
  for (int lane = 0; lane < kMaxLanes; ++lane) text += formatString("lane %d\n", lane);
  EXPECT_TRUE(parseSchedules(text).ok());
  EXPECT_FALSE(parseSchedules(text + formatString("lane %d\n", kMaxLanes)).ok());
  text += "once\nchunk 0 = in";
  for (int source = 1; source < kMaxSources; ++source) text += " + in";
  EXPECT_TRUE(parseSchedules(text).ok());
  EXPECT_FALSE(parseSchedules(text + " + in").ok());
  EXPECT_FALSE(parseSchedules(std::string(kMaxTextBytes + 1, '\n')).ok());
}

// Whatever comes in, the answer is a value or an error (the sanitizers watch).
TEST(ScheduleText, SurvivesBrokenText) {
  const std::string good = textOf(buildAll("ho_ring", Collective::kAllReduce, {2, 2}));
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = good.substr(0, 1500);
    for (int change = 0; change < 3; ++change) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
      }
    }
    refused += !parseSchedules(text).ok();
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace horing
