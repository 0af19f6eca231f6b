// The timelines and pictures that horing-plan makes of schedules.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "../sanitizer.h"
#include "build_all.h"
#include "common/svg.h"
#include "lane_diagram.h"
#include "options.h"
#include "timeline.h"

namespace horing {
namespace {

Timeline timelineOf(const std::vector<Schedule>& all) {
  Result<Timeline> timeline = computeTimeline(all);
  EXPECT_TRUE(timeline.ok()) << timeline.status().message();
  return timeline.ok() ? timeline.take() : Timeline();
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// A ring's steps follow each other, so it takes as many units as it has steps; ho_ring's lanes overlap.
TEST(Timeline, HasTheLengthOfTheCriticalPath) {
  EXPECT_EQ(timelineOf(buildAll("ring", Collective::kAllGather, {1, 8})).length, 8);
  EXPECT_EQ(timelineOf(buildAll("ring", Collective::kAllReduce, {1, 8})).length, 16);
  const auto all = buildAll("ho_ring", Collective::kAllGather, {4, 4});
  EXPECT_EQ(all[0].lanes[0].stepCount() + all[0].lanes[1].stepCount(), 4 + 16);
  EXPECT_EQ(timelineOf(all).length, 1 + 16);
}

TEST(Timeline, StartsNoStepBeforeWhatItDependsOn) {
  const auto all = buildAll("ho_ring", Collective::kReduceScatter, {3, 2});
  const Timeline timeline = timelineOf(all);
  size_t kinds[3] = {};
  for (const Dependence& dependence : timeline.dependences) {
    EXPECT_GE(timeline.events[dependence.to].start, timeline.events[dependence.from].start + 1);
    ++kinds[static_cast<size_t>(dependence.kind)];
  }
  EXPECT_EQ(kinds[static_cast<size_t>(Dependence::Kind::kMessage)], 6u * (3 + 2));
  EXPECT_EQ(kinds[static_cast<size_t>(Dependence::Kind::kScratch)], 6u * 3);
  for (size_t i = 1; i < timeline.events.size(); ++i) {
    const Event &before = timeline.events[i - 1], &event = timeline.events[i];
    if (event.position != before.position || event.lane != before.lane) continue;
    EXPECT_GT(event.start, before.start);
  }
}

TEST(Timeline, RefusesSchedulesThatNeverEnd) {
  auto all = buildAll("ring", Collective::kAllGather, {1, 2});
  all[0].lanes[0].blocks[0].body[0].send_to = -1;
  const Result<Timeline> timeline = computeTimeline(all);
  ASSERT_FALSE(timeline.ok());
  EXPECT_NE(timeline.status().message().find("position 1, lane 0, step 1 never starts"), std::string::npos)
      << timeline.status().message();
}

TEST(LaneDiagram, DrawsEveryStepOnceAndTheMessagesBetweenRanks) {
  const auto all = buildAll("ho_ring", Collective::kAllReduce, {2, 3});
  const Timeline timeline = timelineOf(all);
  Result<std::string> picture = drawLanes(all, timeline, {3, -1});
  ASSERT_TRUE(picture.ok()) << picture.status().message();
  const size_t legend_boxes = 5, legend_arrows = 4;
  EXPECT_EQ(count(picture.value(), "class=\"step "), timeline.events.size() + legend_boxes);
  EXPECT_EQ(count(picture.value(), "class=\"arrow "), timeline.dependences.size() + legend_arrows);
  EXPECT_EQ(count(picture.value(), "crossing\""),
            6u * 2 + 1);  // one message per rank, rail lane and phase; one in the legend
  EXPECT_EQ(count(picture.value(), "<g>"), count(picture.value(), "</g>"));
  EXPECT_NE(picture.value().find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(LaneDiagram, DrawsOneRank) {
  const auto all = buildAll("ho_ring", Collective::kAllGather, {2, 3});
  Result<std::string> picture = drawLanes(all, timelineOf(all), {3, 4});
  ASSERT_TRUE(picture.ok()) << picture.status().message();
  EXPECT_EQ(count(picture.value(), "class=\"step "), 2u + 6 + 5);
  EXPECT_NE(picture.value().find("position 4 = (1,1)"), std::string::npos);
  EXPECT_FALSE(drawLanes(all, timelineOf(all), {3, 6}).ok());
}

double widthOf(const std::string& picture) {
  return std::stod(picture.substr(picture.find("width=\"") + 7));
}

TEST(LaneDiagram, DrawsPositionsThatDoTheSameOnce) {
  const auto all = buildAll("ho_ring", Collective::kAllReduce, {4, 8});
  Result<std::string> picture = drawLanes(all, timelineOf(all), {8, -1});
  ASSERT_TRUE(picture.ok()) << picture.status().message();
  const size_t steps_of_one = 4 * 8 + 4 + 4 + 4 * 8, legend_boxes = 5;
  EXPECT_EQ(count(picture.value(), "class=\"step "), steps_of_one + legend_boxes);
  EXPECT_NE(picture.value().find("31 more positions"), std::string::npos);
  EXPECT_EQ(picture.value().find("position 1 "), std::string::npos);
}

// Of one position 65 columns.
TEST(LaneDiagram, CutsLongTimesIntoBands) {
  const auto all = buildAll("ho_ring", Collective::kAllReduce, {4, 8});
  const Timeline timeline = timelineOf(all);
  Result<std::string> picture = drawLanes(all, timeline, {8, 0});
  ASSERT_TRUE(picture.ok()) << picture.status().message();
  EXPECT_LE(widthOf(picture.value()), 1600);
  EXPECT_EQ(count(picture.value(), "class=\"rank\""), 5u) << "bands";
  for (int32_t time = 0; time < timeline.length; ++time)
    EXPECT_EQ(count(picture.value(), (">" + std::to_string(time) + "</text>").c_str()), 1u)
        << "tick " << time;
}

TEST(LaneDiagram, NamesLanesByWhatTheyDo) {
  const auto all = buildAll("ho_ring", Collective::kAllReduce, {2, 3});
  Result<std::string> picture = drawLanes(all, timelineOf(all), {3, 0});
  ASSERT_TRUE(picture.ok()) << picture.status().message();
  for (const char* name : {"lane 0, reduce in the group", "lane 1, reduce between groups",
                           "lane 2, gather between groups", "lane 3, gather in the group"})
    EXPECT_NE(picture.value().find(name), std::string::npos) << name;
}

// The value of an attribute behind `at`.
double valueAt(const std::string& picture, size_t at, const std::string& name) {
  return std::stod(picture.substr(picture.find(" " + name + "=\"", at) + name.size() + 3));
}

struct Box {
  double left, top, right, bottom;
};

std::vector<Box> boxesOf(const std::string& picture) {
  std::vector<Box> boxes;
  for (size_t at = picture.find("<rect"); at != std::string::npos; at = picture.find("<rect", at + 1)) {
    if (picture.substr(at, picture.find('>', at) - at).find("class=\"step") == std::string::npos) continue;
    const double left = valueAt(picture, at, "x"), top = valueAt(picture, at, "y");
    boxes.push_back({left, top, left + valueAt(picture, at, "width"), top + valueAt(picture, at, "height")});
  }
  return boxes;
}

// Straight lines past other steps run between the rows.
TEST(LaneDiagram, DrawsNoLineBehindABox) {
  const auto all = buildAll("ho_ring", Collective::kAllReduce, {4, 8});
  const Result<std::string> drawn = drawLanes(all, timelineOf(all), {8, -1});
  ASSERT_TRUE(drawn.ok()) << drawn.status().message();
  const std::string& picture = drawn.value();
  const std::vector<Box> boxes = boxesOf(picture);
  ASSERT_GT(boxes.size(), 60u);
  int lines = 0;
  for (size_t at = picture.find("<path d=\"M"); at != std::string::npos;
       at = picture.find("<path d=\"M", at + 1)) {
    std::string points = picture.substr(at + 10, picture.find('"', at + 10) - at - 10);
    if (points.find('C') != std::string::npos) continue;
    std::replace(points.begin(), points.end(), 'L', ' ');
    std::istringstream in(points);
    double x = 0, y = 0, next_x = 0, next_y = 0;
    for (in >> x >> y; in >> next_x >> next_y; x = next_x, y = next_y, ++lines)
      for (const Box& box : boxes)
        EXPECT_FALSE(std::max(x, next_x) > box.left && std::min(x, next_x) < box.right &&
                     std::max(y, next_y) > box.top && std::min(y, next_y) < box.bottom)
            << x << " " << y << " to " << next_x << " " << next_y;
  }
  EXPECT_GT(lines, 10);
}

TEST(LaneDiagram, NamesEndBeforeTheFirstColumn) {
  const auto all = buildAll("ho_ring", Collective::kAllReduce, {4, 8});
  const Result<std::string> drawn = drawLanes(all, timelineOf(all), {8, -1});
  ASSERT_TRUE(drawn.ok()) << drawn.status().message();
  constexpr double kLetter = 6.4;
  const std::string name = "lane 1, reduce between groups";
  const size_t grid = drawn.value().find("class=\"grid\"");
  const double column = valueAt(drawn.value(), drawn.value().rfind("<line", grid), "x1");
  EXPECT_LE(20 + kLetter * static_cast<double>(name.size()), column);
}

// Also for an algorithm that knows no groups.
TEST(LaneDiagram, CountsGroupByGroupWhereGroupsDiffer) {
  const Shape shape = Shape::of(std::vector<int32_t>{2, 3});
  const auto all = buildAll("ring", Collective::kAllGather, {1, 5});
  Result<std::string> picture = drawLanes(all, timelineOf(all), {shape.members, 2, shape.rails});
  ASSERT_TRUE(picture.ok()) << picture.status().message();
  EXPECT_NE(picture.value().find("2 groups of up to 3, position 2 = (1,0)"), std::string::npos);
}

double heightOf(const std::string& picture) {
  return std::stod(picture.substr(picture.find("height=\"") + 8));
}

// A line of text begins 12 above its y.
double leastY(const std::string& picture) {
  const std::string mark = " y=\"";
  double least = heightOf(picture);
  for (size_t at = picture.find(mark); at != std::string::npos; at = picture.find(mark, at + 1))
    least = std::min(least, std::stod(picture.substr(at + mark.size())));
  return least;
}

// Of what stands in a box, beyond the box's own width; a letter is 0.61 of its size wide.
double mostBeyondBoxes(const std::string& picture) {
  double most = -1e9;
  const std::string mark = " class=\"what";
  for (size_t at = picture.find(mark); at != std::string::npos; at = picture.find(mark, at + 1)) {
    const size_t begin = picture.find('>', at) + 1;
    const std::string text = picture.substr(begin, picture.find('<', begin) - begin);
    const auto letters = std::count_if(text.begin(), text.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
    });
    const double size = picture.compare(at + mark.size(), 6, " tight") == 0 ? 7.5 : 9.5;
    const double box = valueAt(picture, picture.rfind("<rect", at), "width");
    most = std::max(most, 0.61 * size * static_cast<double>(letters) - box);
  }
  return most;
}

// Of direct, each position takes the same steps at the same times; of chain and binomial, the same at other times; of star, one lane each.
TEST(LaneDiagram, StaysOnAScreen) {
  for (const Algorithm& algorithm : algorithmCatalogue())
    for (int number = 0; number < kCollectives; ++number) {
      const auto collective = static_cast<Collective>(number);
      if (!algorithm.has(collective)) continue;
      for (const Shape& shape : {Shape{1, 24}, Shape{4, 8}, Shape{1, test::sweepTo(96)}}) {
        const auto all = buildAll(algorithm.name, collective, shape);
        for (const int32_t position : {-1, 1}) {
          Result<std::string> picture = drawLanes(all, timelineOf(all), {shape.members, position});
          ASSERT_TRUE(picture.ok()) << picture.status().message();
          const std::string what =
              formatString("%s %s %dx%d, position %d", algorithm.name, collectiveName(collective),
                           shape.groups, shape.members, position);
          EXPECT_LE(widthOf(picture.value()), 1600) << what;
          EXPECT_LE(heightOf(picture.value()), 1600) << what;
          EXPECT_GE(leastY(picture.value()), 12) << what;
          EXPECT_LE(mostBeyondBoxes(picture.value()), 0) << what;
          EXPECT_GT(count(picture.value(), "class=\"step "), 5u) << what << ": the legend alone";
        }
      }
    }
}

// 399 hops, all alike but the first and the last.
TEST(LaneDiagram, LeavesOutTimesThatRepeat) {
  const auto all = buildAll("ring", Collective::kAllGather, {1, 400});
  Result<std::string> picture = drawLanes(all, timelineOf(all), {400, 1});
  ASSERT_TRUE(picture.ok()) << picture.status().message();
  EXPECT_EQ(count(picture.value(), "class=\"tick\""), 3u + 1)
      << "times 0, 1 and 399, and what stands for the others";
  EXPECT_EQ(count(picture.value(), "class=\"step "), 3u + 5);
  EXPECT_NE(picture.value().find(">399</text>"), std::string::npos);
  EXPECT_EQ(count(picture.value(), "⋯"), 1u);
  EXPECT_NE(picture.value().find("times that repeat what is beside them are left out"), std::string::npos);
}

TEST(Svg, EscapesWhatXmlWouldMisread) {
  EXPECT_EQ(escapeXml("a<b>&\"c'\x01"), "a&lt;b&gt;&amp;&quot;c&#39;");
}

PlanOptions parsed(std::vector<std::string> words, int expected_exit = -1, const char* expected_text = "") {
  words.insert(words.begin(), "horing-plan");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  PlanOptions options;
  int exit_code = -1;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(parseOptions(static_cast<int>(argv.size()), argv.data(), options, exit_code), expected_exit < 0);
  const std::string out = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_EQ(exit_code, expected_exit) << out;
  EXPECT_NE(out.find(expected_text), std::string::npos) << out;
  return options;
}

TEST(PlanOptions, FillsInWhatTheWindowNeeds) {
  const PlanOptions plain = parsed({"verify", "ring", "--nodes", "3", "--ranks", "2"});
  EXPECT_EQ(plain.shape.ranks(), 6);
  EXPECT_EQ(plain.collectives.size(), 3u);
  EXPECT_EQ(plain.parameters, (PlanParameters{12, {4}, 1, 5, 5}));
  const PlanOptions given =
      parsed({"verify", "ring", "--window", "2,6", "--message", "3", "--slots", "2", "-c", "all_gather"});
  EXPECT_EQ(given.collectives, std::vector<Collective>{Collective::kAllGather});
  EXPECT_EQ(given.parameters, (PlanParameters{18, {2, 6}, 3, 2, 7}));
  EXPECT_EQ(parsed({"show", "ring", "--position", "all"}).position, -1);
  EXPECT_EQ(parsed({"show", "ring", "--position", "3"}).position, 3);
}

TEST(PlanOptions, TakeNodesThatDiffer) {
  const Shape shape = parsed({"show", "ho_ring", "--ranks", "3,2"}).shape;
  EXPECT_EQ(shape.groups, 2);
  EXPECT_EQ(shape.ranks(), 5);
  EXPECT_EQ(shape.rails.sizeOf(1), 2);
  parsed({"show", "ho_ring", "--nodes", "3", "--ranks", "3,2"}, 2, "2 numbers for 3 nodes");
  parsed({"show", "ho_ring", "--ranks", "3,0"}, 2);
  EXPECT_EQ(parsed({"show", "--ranks", "3", "ho_ring"}).what, "ho_ring");
}

TEST(PlanOptions, RefusesNonsense) {
  parsed({}, 2, "subcommand is required");
  parsed({"draw"}, 2, "not expected: draw");
  parsed({"--bogus"}, 2, "not expected: --bogus");
  parsed({"show"}, 2, "Name an algorithm (ring, serial_ring, direct");
  parsed({"verify"}, 2, "horing-plan verify ho_ring --nodes 2 --ranks 4");
  parsed({"show", "ring", "--nodes", "0"}, 2);
  parsed({"show", "ring", "--position", "-2"}, 2);
  parsed({"show", "ring", "--collective", "broadcast"}, 2);
  parsed({"verify", "ring", "--slots", "0"}, 2);
  parsed({"--help"}, 0);
}

}  // namespace
}  // namespace horing
