// The text, pictures and files for other programs that horing-sim makes of a simulation.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../sanitizer.h"
#include "chart.h"
#include "chrome_trace.h"
#include "cluster_picture.h"
#include "common/quantity.h"
#include "compare.h"
#include "goal.h"
#include "options.h"
#include "outer_ring.h"
#include "run_picture.h"
#include "run_report.h"
#include "selection/model_selection.h"
#include "selection/selection_table.h"
#include "sim/wire_bound.h"
#include "units.h"

namespace horing {
namespace {

Question smallQuestion(const char* algorithm, Collective collective) {
  Question question;
  question.algorithm = algorithm;
  question.collective = collective;
  question.machine.nodes = 3;
  question.machine.ranks_per_node = 2;
  question.machine.step_us = 0.1;
  question.bytes = 300'000;
  return question;
}

Prediction predicted(const Question& question) {
  Result<Prediction> prediction = predict(question, Record::kEverything);
  EXPECT_TRUE(prediction.ok()) << prediction.status().toString();
  return prediction.ok() ? prediction.take() : Prediction();
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(SimOptions, NameWhatIsWrong) {
  for (const auto& [word, said] :
       {std::pair{"--bogus", "not expected: --bogus"}, {"", "subcommand is required"}}) {
    char program[] = "horing-sim", *argv[] = {program, const_cast<char*>(word)};
    SimOptions options;
    int exit_code = -1;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parseOptions(*word ? 2 : 1, argv, options, exit_code));
    EXPECT_NE(testing::internal::GetCapturedStderr().find(said), std::string::npos) << said;
    EXPECT_EQ(exit_code, 2);
  }
}

Result<MachineModel> machineGiven(std::vector<std::string> words) {
  words.insert(words.begin(), {"horing-sim", "machine"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  SimOptions options;
  int exit_code = -1;
  testing::internal::CaptureStderr();
  const bool is_right = parseOptions(static_cast<int>(argv.size()), argv.data(), options, exit_code);
  const std::string said = testing::internal::GetCapturedStderr();
  if (!is_right) return makeStatus(Code::kInvalidArgument, "%s", said.c_str());
  return options.question.machine;
}

TEST(SimOptions, TakeNodesThatDiffer) {
  const Result<MachineModel> found = machineGiven({"--ranks", "2,2,1", "--inter-gbytes", "10,10,4"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found.value().ranks(), 5);
  EXPECT_EQ(found.value().linksOf(2).sends, 0.4);
  EXPECT_EQ(machineGiven({"--nodes", "3", "--ranks", "2", "--inter-gbytes", "10"}).value().ranks(), 6);
  const auto fault = [](std::vector<std::string> words) {
    return machineGiven(std::move(words)).status().message();
  };
  EXPECT_NE(fault({"--nodes", "4", "--ranks", "2,2,1"}).find("3 numbers for 4 nodes"), std::string::npos);
  EXPECT_NE(fault({"--ranks", "2,2,1", "--inter-gbytes", "10,4"}).find("2 numbers for 3 nodes"),
            std::string::npos);
  for (const char* rates : {"10,0", "10,nan", "nan"})
    EXPECT_NE(fault({"--inter-gbytes", rates}).find("is above 0"), std::string::npos) << rates;
  EXPECT_NE(fault({"--ranks", "2", "3"}).find("not expected: 3"), std::string::npos);
}

TEST(Units, ReadSizesAsPeopleWriteThem) {
  const std::pair<const char*, uint64_t> sizes[] = {
      {"4096", 4096}, {"64K", 65536}, {"1GiB", 1u << 30}, {"1GB", 1000000000}, {"1.5M", 1572864}, {"0", 0}};
  for (const auto& [text, bytes] : sizes) {
    const Result<uint64_t> read = parseBytes(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(read.value(), bytes) << text;
  }
  for (const char* text : {"", "K", "1Q", "-1", "1e30", "nan", "1 GiB "})
    EXPECT_FALSE(parseBytes(text).ok()) << text;
  EXPECT_EQ(sizeText(1u << 30), "1 GiB");
  EXPECT_EQ(sizeText(1000000000), "1 GB");
  EXPECT_EQ(sizeText(65536), "64 KiB");
  EXPECT_EQ(sizeText(100), "100 B");
  EXPECT_EQ(timeText(12'345'000'000), "12.3 ms");
  EXPECT_EQ(timeText(5'000'000), "5.00 us");
  EXPECT_EQ(timeText(999), "1 ns");
}

// One node represents all, and the result is the same.
TEST(Prediction, IsTheSameOfOneNodeAndOfAllRanks) {
  for (const char* algorithm : {"ring", "ho_ring", "direct"}) {
    Question question = smallQuestion(algorithm, Collective::kAllReduce);
    question.bytes = 64 * 6 * 100;  // chunks of one size
    const Prediction one = predicted(question);
    question.ranks = Ranks::kAll;
    const Prediction all = predicted(question);
    EXPECT_TRUE(one.folding.folds());
    EXPECT_FALSE(all.folding.folds());
    EXPECT_EQ(one.result.time, all.result.time);
    EXPECT_GT(one.overBound(), 1);
  }
}

// What it takes to simulate 2,048 nodes grows with the steps of one of them, not of all. Counted, for seconds differ from machine to
// machine: a rank takes a step or two for each hop of a rail and each chunk inside, in both phases. Slices multiply that; one will do. Under a sanitizer,
// 2,048 ranks.
TEST(Prediction, OfSixteenThousandRanksTakesTheStepsOfEight) {
  constexpr int64_t kNodes = test::kSanitizer ? 256 : 2048, kRanks = 8,
                    kMostSteps = 2 * 2 * kNodes * (kRanks + 1) * kRanks;
  Question question;
  question.machine.nodes = kNodes;
  question.machine.ranks_per_node = kRanks;
  question.bytes = 1u << 30;
  question.pipelining.slices_per_chunk = 1;
  question.most_work = 4 * kMostSteps;  // a message is given its share of a line once or twice
  for (const char* algorithm : {"ho_ring", "ho_ring_direct"}) {
    question.algorithm = algorithm;
    const Result<Prediction> prediction = predict(question, Record::kNothing);
    ASSERT_TRUE(prediction.ok()) << prediction.status().message();
    EXPECT_EQ(prediction.value().schedules->size(), static_cast<size_t>(kRanks));
    EXPECT_LE(prediction.value().result.slices, kMostSteps);
    EXPECT_GT(prediction.value().result.slices, 0);
  }
}

// 1.2 s of a core and 5 MB where others were busy; half of that for 100,000 nodes of one rank. Under a sanitizer, a tenth.
TEST(Prediction, OfAHundredThousandRanksTakesSecondsAndLittleMemory) {
  constexpr int kRanks = test::kSanitizer ? 10'000 : 100'000;
  Question question;
  question.algorithm = "ho_ring";
  question.bytes = 1u << 30;
  for (const int ranks : {8, 1}) {
    question.machine.ranks_per_node = ranks;
    question.machine.nodes = kRanks / ranks;
    const std::clock_t begun = std::clock();
    const Result<Prediction> prediction = predict(question, Record::kNothing);
    const auto seconds = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    ASSERT_TRUE(prediction.ok()) << prediction.status().message();
    EXPECT_GT(prediction.value().result.slices, 0);
    EXPECT_LT(seconds, 10 * test::kSlowdown);
  }
  rusage used{};
  ASSERT_EQ(::getrusage(RUSAGE_SELF, &used), 0);
  EXPECT_LT(used.ru_maxrss, 4 << 20) << "KiB, of this whole process";
}

TEST(Prediction, SaysWhatCannotBePredicted) {
  Question question = smallQuestion("no_such", Collective::kAllReduce);
  EXPECT_NE(predict(question, Record::kNothing).status().message().find("no algorithm"), std::string::npos);
  question = smallQuestion("ring", Collective::kBroadcast);
  EXPECT_FALSE(predict(question, Record::kNothing).ok());
}

TEST(Prediction, RefusesWhatTakesTooMuchMemory) {
  Question question = smallQuestion("pairwise", Collective::kAllToAll);
  question.machine.nodes = 20;
  question.machine.ranks_per_node = 8;
  question.ranks = Ranks::kAll;
  ASSERT_TRUE(predict(question, Record::kNothing).ok());
  question.most_bytes = 1 << 20;
  const Status refused = predict(question, Record::kNothing).status();
  EXPECT_NE(refused.message().find("160 ranks of pairwise take about 0.0 GiB"), std::string::npos)
      << refused.message();
}

// Numbers of ranks times numbers of nodes do not fit 32 bits.
TEST(Prediction, OfFiftyThousandNodesIsThatOfOne) {
  Question question;
  question.machine.nodes = 50'000;
  question.machine.ranks_per_node = 1;
  question.bytes = 1u << 30;
  question.pipelining.slices_per_chunk = 1;
  const Result<Prediction> prediction = predict(question, Record::kNothing);
  ASSERT_TRUE(prediction.ok()) << prediction.status().message();
  EXPECT_EQ(prediction.value().schedules->size(), 1u);
}

TEST(RunReport, SaysWhatTheTimeWentInto) {
  const Prediction prediction = predicted(smallQuestion("ho_ring", Collective::kAllReduce));
  const Result<std::string> report = reportRun(prediction);
  ASSERT_TRUE(report.ok());
  for (const std::string& part :
       {"ho_ring all_reduce of 300 kB on 3 x 2 ranks: " + timeText(prediction.result.time),
        formatString("time / bound %.3f", prediction.overBound()), std::string("NIC out"),
        std::string("Critical path"), std::string("latency between nodes"),
        std::string("lane 1, between nodes")})
    EXPECT_NE(report.value().find(part), std::string::npos) << part << "\n" << report.value();
}

// Every slice and every message is there once, nothing ends after the end, and no line carries two messages at a time.
TEST(ChromeTrace, HoldsEverySliceAndMessage) {
  const Prediction prediction = predicted(smallQuestion("ho_ring", Collective::kReduceScatter));
  const Result<std::string> text = chromeTrace(prediction);
  ASSERT_TRUE(text.ok());
  const auto trace = nlohmann::json::parse(text.value());
  size_t bars = 0, begun = 0, ended = 0;
  std::map<std::pair<int, int>, double> busy_until;
  for (const auto& event : trace["traceEvents"]) {
    begun += event["ph"] == "s";
    ended += event["ph"] == "f";
    if (event["ph"] != "X") continue;
    ++bars;
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    EXPECT_LE(end, toMicroseconds(prediction.result.time) + 1e-6);
    double& busy = busy_until[{event["pid"], event["tid"]}];
    EXPECT_GE(begin, busy - 1e-6);
    busy = end;
  }
  EXPECT_EQ(bars, prediction.result.slice_records.size() + prediction.result.message_records.size());
  EXPECT_GT(begun, 0u);
  EXPECT_EQ(begun, ended);
}

// Of the first ranks, whole, and nothing of others: no arrow from a track that is not there.
TEST(ChromeTrace, ShowsTheFirstRanksOfMany) {
  const Prediction prediction = predicted(smallQuestion("ho_ring", Collective::kReduceScatter));
  const auto all = nlohmann::json::parse(chromeTrace(prediction).take());
  const auto events_of = [](const nlohmann::json& trace, int rank) {
    return std::count_if(trace["traceEvents"].begin(), trace["traceEvents"].end(),
                         [&](const auto& event) { return event["pid"] == rank && event["ph"] == "X"; });
  };
  const auto some = nlohmann::json::parse(chromeTrace(prediction, 1).take());
  EXPECT_EQ(events_of(some, 0), events_of(all, 0));
  EXPECT_GT(events_of(all, 1), 0);
  for (const auto& event : some["traceEvents"]) EXPECT_EQ(event["pid"], 0);
  EXPECT_NE(some["traceEvents"].back()["name"].get<std::string>().find(", the first 1 of 2 ranks"),
            std::string::npos);
  EXPECT_EQ(all["traceEvents"].back()["name"].get<std::string>().find("first"), std::string::npos);
}

// Lines that LogGOPSim's grammar knows, labels that exist, and a receive for each send.
TEST(Goal, IsWellFormedAndBalanced) {
  for (const char* algorithm : {"ring", "ho_ring", "peer_read", "ho_doubling"}) {
    Question question = smallQuestion(algorithm, Collective::kAllReduce);
    question.ranks = Ranks::kAll;
    const Prediction prediction = predicted(question);
    const Result<std::string> goal = goalText(prediction);
    ASSERT_TRUE(goal.ok()) << goal.status().message();
    const std::regex message(R"(l(\d+): (send|recv) (\d+)b (to|from) (\d+) tag (\d+) nic [01])");
    const std::regex calc(R"(l(\d+): calc (\d+))"), needs(R"(l(\d+) requires l(\d+))"),
        rank(R"(rank (\d+) \{)");
    std::map<std::vector<std::string>, int> balance;  // from, to, tag, bytes
    std::set<std::string> labels;
    std::vector<std::string> needed;
    std::string position;
    std::istringstream lines(goal.value());
    size_t sends = 0;
    for (std::string line; std::getline(lines, line);) {
      std::smatch part;
      if (std::regex_match(line, part, message)) {
        labels.insert(part[1]);
        const bool is_send = part[2] == "send";
        sends += is_send;
        balance[{is_send ? position : part[5].str(), is_send ? part[5].str() : position, part[6], part[3]}] +=
            is_send ? 1 : -1;
      } else if (std::regex_match(line, part, calc)) {
        labels.insert(part[1]);
      } else if (std::regex_match(line, part, needs)) {
        needed.push_back(part[1]);
        needed.push_back(part[2]);
      } else if (std::regex_match(line, part, rank)) {
        position = part[1];
      } else if (line == "}") {
        for (const std::string& label : needed)
          EXPECT_TRUE(labels.count(label)) << algorithm << " l" << label;
        labels.clear();
        needed.clear();
      } else {
        EXPECT_TRUE(line.empty() || line == "num_ranks 6") << line;
      }
    }
    EXPECT_EQ(sends, static_cast<size_t>(prediction.result.messages)) << algorithm;
    for (const auto& [key, surplus] : balance)
      EXPECT_EQ(surplus, 0) << algorithm << " " << key[0] << " to " << key[1];
  }
}

TEST(Goal, NeedsAllRanks) {
  const Result<std::string> goal = goalText(predicted(smallQuestion("ho_ring", Collective::kAllReduce)));
  ASSERT_FALSE(goal.ok());
  EXPECT_NE(goal.status().message().find("--all-ranks"), std::string::npos);
}

TEST(RunPicture, DrawsEveryLaneAndThePath) {
  const Prediction prediction = predicted(smallQuestion("ho_ring", Collective::kAllReduce));
  const Result<std::string> picture = drawRun(prediction, {1});
  ASSERT_TRUE(picture.ok());
  EXPECT_EQ(count(picture.value(), "class=\"row\""), 1u + 4u);  // the path, and the lanes of one rank
  EXPECT_NE(picture.value().find("the first rank is drawn"), std::string::npos);
  EXPECT_GT(count(picture.value(), "class=\"far\""), 2u);
  EXPECT_EQ(count(picture.value(), "<g>"), count(picture.value(), "</g>"));
}

TEST(RunPicture, NamesLanesByWhatTheyDoAndRoundTimes) {
  const Prediction prediction = predicted(smallQuestion("ho_ring", Collective::kAllReduce));
  const Result<std::string> picture = drawRun(prediction, {1});
  ASSERT_TRUE(picture.ok());
  for (const char* name : {">lane 0, reduce in the group<", ">lane 1, reduce between groups<",
                           ">lane 2, gather between groups<", ">lane 3, gather in the group<"})
    EXPECT_EQ(count(picture.value(), name), 1u) << name;
  EXPECT_EQ(count(picture.value(), ">0</text>"), 1u);
  const std::vector<double> ticks = linearTicks(0, static_cast<double>(prediction.result.time));
  ASSERT_GE(ticks.size(), 4u);
  EXPECT_EQ(count(picture.value(), "class=\"tick\""), ticks.size());
}

TEST(Ticks, AreRound) {
  EXPECT_EQ(linearTicks(0, 522), (std::vector<double>{0, 100, 200, 300, 400, 500}));
}

// Each rank has six lanes.
TEST(RunPicture, StaysOnAScreen) {
  Question question = smallQuestion("pairwise", Collective::kAllToAll);
  question.machine.nodes = 1;
  question.machine.ranks_per_node = 24;
  const Result<std::string> picture = drawRun(predicted(question), {16});
  ASSERT_TRUE(picture.ok());
  const std::string& text = picture.value();
  EXPECT_LE(std::stod(text.substr(text.find("height=\"") + 8)), 1600);
  EXPECT_EQ(count(text, "class=\"row\""), 1u + 12 * 6);
  EXPECT_NE(text.find("the first 12 ranks are drawn"), std::string::npos);
}

// The slow node sends its vector once and receives the result once; the others share the rest.
TEST(ClusterPicture, ShowsWhatEachLinkCarries) {
  Question question = smallQuestion("ho_shares", Collective::kAllReduce);
  question.bytes = 3 << 20;
  question.machine.nic = Owner::kNode;
  question.machine.setNodes(std::vector<int32_t>{2, 2, 2, 1});
  question.machine.setRates(std::vector<double>{12.5, 12.5, 12.5, 5});
  const Result<std::string> drawn = drawCluster(predicted(question));
  ASSERT_TRUE(drawn.ok()) << drawn.status().message();
  const std::string& picture = drawn.value();
  EXPECT_EQ(count(picture, "12.5 GB/s each way"), 3u);
  EXPECT_EQ(count(picture, ">5 GB/s each way"), 1u);
  EXPECT_EQ(count(picture, ">reduces 0 %"), 1u);
  EXPECT_EQ(count(picture, ">reduces 33 %"), 3u);
  EXPECT_EQ(count(picture, ">sends 3 MiB"), 1u);
  EXPECT_EQ(count(picture, ">receives 3 MiB"), 1u);
  EXPECT_EQ(count(picture, "class=\"rank\""), 7u);
}

TEST(ClusterPicture, LetsOneNodeStandForAllThatAreAlike) {
  Question question = smallQuestion("ho_ring", Collective::kAllGather);
  const Prediction prediction = predicted(question);
  ASSERT_TRUE(prediction.folding.folds());
  const std::string picture = drawCluster(prediction).value();
  EXPECT_EQ(count(picture, ">node "), 3u);
  EXPECT_EQ(count(picture, ">sends 195 KiB"), 3u) << picture;
  EXPECT_EQ(count(picture, ">receives 195 KiB"), 3u);
}

TEST(ClusterPicture, StaysOnAScreen) {
  Question question = smallQuestion("binomial", Collective::kBroadcast);
  std::vector<int32_t> sizes(20, 1);
  sizes[0] = 300;
  question.machine.setNodes(sizes);
  const std::string picture = drawCluster(predicted(question)).value();
  const auto sideOf = [&](const std::string& mark) {
    return std::stod(picture.substr(picture.find(mark) + mark.size()));
  };
  EXPECT_LE(sideOf(" width=\""), 1600);
  EXPECT_LE(sideOf(" height=\""), 1600);
  EXPECT_NE(picture.find("on 20 nodes, 319 ranks"), std::string::npos);
  EXPECT_NE(picture.find("the first 11 of 20 nodes; the first 256 ranks of a node"), std::string::npos);
}

TEST(Chart, DrawsEveryPointInsideItsFrame) {
  Chart chart;
  chart.title = "a < b";
  chart.x_text = [](double x) { return formatString("%.0f", x); };
  chart.curves = {{"one", {{1, 0.5}, {2, 1}}, {2}}, {"two", {{1, 0.5}, {4, 0.9}}, {}, 1, true}};
  const std::string picture = drawChart(chart);
  EXPECT_EQ(count(picture, "class=\"d d0\""), 2u + 1u);  // and next to the name
  EXPECT_EQ(count(picture, "class=\"c c1 dash\""), 1u);
  EXPECT_EQ(count(picture, "<circle"), 1u);
  EXPECT_NE(picture.find("a &lt; b"), std::string::npos);
  const std::regex dot("<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"6\"");
  size_t dots = 0;
  for (std::sregex_iterator at(picture.begin(), picture.end(), dot), end; at != end; ++at, ++dots) {
    EXPECT_GE(std::stod((*at)[1]), 80);
    EXPECT_LE(std::stod((*at)[1]), 690);
    EXPECT_LE(std::stod((*at)[2]), 440);
  }
  EXPECT_EQ(dots, 4u);
}

// A curve that rises steeply beside labels of its own and of one that lies below it: each label is there, away from all lines.
TEST(Chart, KeepsLabelsOffTheCurves) {
  Chart chart;
  chart.x_text = [](double x) { return formatString("%.0f", x); };
  chart.y_is_logarithmic = true;
  chart.curves = {{"flat", {{1, 30}, {2, 31}, {4, 33}, {8, 200000}}},
                  {"selected", {{1, 10}, {2, 12}, {4, 30}, {8, 190000}}, {}, 1}};
  chart.curves[1].is_wide = true;
  chart.curves[1].labels = {{1, "one_shot"}, {2, "ho_doubling"}, {4, "ho_direct"}};
  const std::string picture = drawChart(chart);
  EXPECT_NE(picture.find(">100,000</text>"), std::string::npos);
  const std::regex segment(
      "<line x1=\"([0-9.]+)\" y1=\"([0-9.]+)\" x2=\"([0-9.]+)\" y2=\"([0-9.]+)\" class=\"c ");
  for (const char* label : {"one_shot", "ho_doubling", "ho_direct"}) {
    const size_t at = picture.find(std::string(">") + label + "</text>");
    ASSERT_NE(at, std::string::npos) << label;
    const std::string text = picture.substr(picture.rfind("<text", at), at);
    const double left = std::stod(text.substr(text.find(" x=\"") + 4)),
                 line = std::stod(text.substr(text.find(" y=\"") + 4));
    const double right = left + 6.5 * static_cast<double>(std::string_view(label).size());
    EXPECT_GE(left, 84) << label << ": on the axis";
    for (std::sregex_iterator each(picture.begin(), picture.end(), segment), end; each != end; ++each) {
      const double x1 = std::stod((*each)[1]), y1 = std::stod((*each)[2]), x2 = std::stod((*each)[3]),
                   y2 = std::stod((*each)[4]);
      for (double x = std::max(x1, left); x <= std::min(x2, right); x += 0.25) {
        const double y = y1 + (y2 - y1) * (x - x1) / (x2 - x1);
        EXPECT_FALSE(y > line - 10 && y < line + 3) << label << " at " << x;
      }
    }
  }
}

TEST(Compare, MarksTheFastestAndLeavesOutWhatCannotRun) {
  Comparison comparison;
  comparison.question = smallQuestion("", Collective::kAllReduce);
  comparison.algorithms = {"ring", "ho_ring"};
  comparison.sizes = {4096, 1 << 20};
  const Result<ComparisonReport> sizes = compare(comparison);
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  EXPECT_EQ(count(sizes.value().table, "*\n") + count(sizes.value().table, "* "), 2u + 1u)
      << sizes.value().table;
  ASSERT_EQ(sizes.value().chart.curves.size(), 2u);
  EXPECT_EQ(count(sizes.value().csv, "\nall_reduce,ring,3,2,12.5,"), 2u) << sizes.value().csv;
  EXPECT_LT(sizes.value().chart.curves[1].points[1].second, sizes.value().chart.curves[0].points[1].second);
  comparison.over = Comparison::Over::kNodes;
  comparison.nodes = {2, 2048};
  comparison.algorithms = {"ho_direct"};
  const Result<ComparisonReport> nodes = compare(comparison);  // 2047 operands in one step are too many
  ASSERT_TRUE(nodes.ok());
  EXPECT_EQ(nodes.value().chart.curves[0].points.size(), 1u);
  EXPECT_NE(nodes.value().table.find("# - ho_direct: "), std::string::npos);
  comparison.algorithms = {"nothing"};
  EXPECT_FALSE(compare(comparison).ok());
}

// Where few nodes are fast inside nothing keeps the rails from the wire; then latencies do, or rows that take too long.
TEST(OuterRing, IsLimitedByLatencyAndByWhatIsInside) {
  const auto limit = [](int32_t nodes, double inside_gbytes_per_s) {
    Question question;
    question.machine.nodes = nodes;
    question.machine.inside.gbytes_per_s = inside_gbytes_per_s;
    return ringLimit(question, wireBound(question.collective, 1u << 30, question.machine));
  };
  // 10 us for each node but the first, of 21.5 ms (M-1)/M: up to 85 nodes.
  EXPECT_EQ(limit(85, 450), RingLimit::kNone);
  EXPECT_EQ(limit(86, 450), RingLimit::kLatency);
  // Seven messages at 12.5 x 7 = 87.5 GB/s are a hop, 2 us each instead of 5 aside; of two nodes two rows have one hop.
  EXPECT_EQ(limit(2, 176), RingLimit::kNone);
  EXPECT_EQ(limit(2, 174), RingLimit::kInside);
  Question question;
  question.machine.inside.gbytes_per_s = 88;
  EXPECT_TRUE(rowIsBelowHop(question));
  question.machine.inside.gbytes_per_s = 87;
  EXPECT_FALSE(rowIsBelowHop(question));
}

TEST(Compare, SaysWhereSelectionLeavesTheOuterRing) {
  Comparison comparison;
  comparison.question = smallQuestion("", Collective::kAllReduce);
  comparison.question.bytes = 4 << 20;
  comparison.question.machine.between.latency_us = 2;
  comparison.question.machine.inside.latency_us = 0.5;
  comparison.algorithms = {"ho_ring", kSelected};
  comparison.over = Comparison::Over::kNodes;
  comparison.nodes = {3, 128};
  const Result<ComparisonReport> report = compare(comparison);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const std::string& table = report.value().table;
  EXPECT_NE(table.find("# on 3 nodes, ho_ring >= 0.9"), std::string::npos) << table;
  const Curve& selected = report.value().chart.curves[1];
  ASSERT_EQ(selected.points.size(), 2u);
  ASSERT_EQ(selected.labels.size(), 2u) << table;
  EXPECT_EQ(selected.labels[0].second, "ho_ring");
  const auto& [nodes, other] = selected.labels[1];
  EXPECT_NE(table.find(formatString("leaves the outer ring at %.0f nodes, for %s", nodes, other.c_str())),
            std::string::npos)
      << table;
  ASSERT_EQ(report.value().chart.spans.size(), 1u);  // one node count makes no bar
  EXPECT_EQ(report.value().chart.spans[0].from, nodes);
  EXPECT_GT(selected.points[1].second, report.value().chart.curves[0].points[1].second);
}

// With one NIC for a node the gain is that of the bytes, less what latency takes.
TEST(Compare, WithThePaperGainsWhatTheBytesSay) {
  Pipelining plan;
  plan.slice_bytes = 1 << 20;
  plan.window = 8;
  plan.slots_inside = plan.slots_between = 16;
  const Result<ComparisonReport> report = compareWithPaper(plan);
  ASSERT_TRUE(report.ok());
  const std::vector<Curve>& curves = report.value().chart.curves;
  ASSERT_EQ(curves.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_LT(curves[1].points[i].second, curves[0].points[i].second);
    EXPECT_GT(curves[1].points[i].second, 0.95 * curves[0].points[i].second - 0.5);
  }
  EXPECT_NE(report.value().table.find("25.2 to 39.7"), std::string::npos);
}

// The library reads its output, which names the fastest of each size.
TEST(Select, WritesATableThatTheLibraryReads) {
  SelectionQuestion asked;
  asked.question = smallQuestion("", Collective::kAllReduce);
  asked.collectives = {Collective::kAllReduce, Collective::kAllGather};
  asked.sizes = {1024, 65536, 4 << 20};
  const Result<std::string> text = selectionText(asked);
  ASSERT_TRUE(text.ok()) << text.status().message();
  const Result<SelectionTable> table = SelectionTable::parse(text.value(), "predicted");
  ASSERT_TRUE(table.ok()) << table.status().message() << "\n" << text.value();
  for (const Collective collective : asked.collectives)
    for (const uint64_t bytes : asked.sizes) {
      const SelectionRow* first = nullptr;
      for (const SelectionRow& row : table.value().rows())
        if (!first && row.fits(collective, {3, 2}) && bytes <= row.most_bytes) first = &row;
      ASSERT_NE(first, nullptr);
      Question question = asked.question;
      question.collective = collective;
      question.bytes = bytes;
      question.algorithm = first->algorithm->name;
      const Picoseconds chosen = predicted(question).result.time;
      for (const Algorithm& other : algorithmCatalogue()) {
        if (!other.has(collective) || other.reachesPeers()) continue;
        question.algorithm = other.name;
        EXPECT_LE(chosen, predicted(question).result.time) << other.name << ", " << bytes << " bytes";
      }
    }
}

}  // namespace
}  // namespace horing
