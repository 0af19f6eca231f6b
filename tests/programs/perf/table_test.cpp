#include "perf/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace horing::perf {
namespace {

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

Row exampleRow() {
  Row row;
  row.bytes = 1048576;
  row.count = 262144;
  row.type = "float";
  row.op = "sum";
  row.out_of_place = {123.456, 8.49, 12.74, 0, {}};
  row.in_place = Measurement{1234567.8, 0.001, 0.0015, {}, {}};
  return row;
}

TEST(FitNumber, DropsDecimalsUntilItFits) {
  EXPECT_EQ(fitNumber(1.234, 6), "1.23");
  EXPECT_EQ(fitNumber(12345.67, 7), "12345.7");
  EXPECT_EQ(fitNumber(1234567.8, 7), "1234568");
  EXPECT_EQ(fitNumber(123456789.0, 7), "1.2e+08");
}

TEST(RowText, HasTheThirteenColumnsOfNcclTests) {
  const std::vector<std::string> columns = words(rowText(exampleRow()));
  const std::vector<std::string> wanted = {"1048576", "262144", "float",   "sum",  "-1",   "123.46", "8.49",
                                           "12.74",   "0",      "1234568", "0.00", "0.00", "N/A"};
  EXPECT_EQ(columns, wanted);
}

TEST(RowText, ShowsTheRootAndThatAHalfCannotBeHad) {
  Row row = exampleRow();
  row.root = 3;
  row.in_place.reset();
  const std::vector<std::string> columns = words(rowText(row));
  ASSERT_EQ(columns.size(), 13u);
  EXPECT_EQ(columns[4], "3");
  for (size_t i = 9; i < 13; ++i) EXPECT_EQ(columns[i], "N/A");
  EXPECT_EQ(rowText(row).size(), rowText(exampleRow()).size());
  row.out_of_place.iterations = IterationTimes{{1, 2}, {}};
  EXPECT_EQ(words(rowText(row)).size(), 21u);
}

TEST(ExplanationText, ComparesEachRowWithItsPrediction) {
  Row predicted = exampleRow(), unknown = exampleRow(), nothing = exampleRow();
  nothing.predicted = {0, ""};
  EXPECT_FALSE(partReached(nothing));
  predicted.predicted = {61.728, "memory: of a node"};
  const std::string text = explanationText({predicted, unknown}, true);
  EXPECT_NE(text.find("for this machine, as it was measured before"), std::string::npos);
  EXPECT_EQ(explanationText({}, false).find("as it was measured"), std::string::npos);
  std::istringstream lines(text);
  std::string line;
  std::vector<std::vector<std::string>> rows;
  while (std::getline(lines, line))
    if (line.find("1048576") != std::string::npos) rows.push_back(words(line));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"#", "1048576", "float", "sum", "123.46", "61.73", "50.00",
                                               "memory:", "of", "a", "node"}));
  EXPECT_EQ(rows[1], (std::vector<std::string>{"#", "1048576", "float", "sum", "123.46", "N/A", "N/A"}));
}

TEST(RankTimesText, HasARowForEachRankOfRowsWithTimes) {
  Row timed = exampleRow(), untimed = exampleRow();
  timed.out_of_place.iterations = IterationTimes{{3, 20, 7}, {{1, 3, 2}, {3, 20, 7}}};
  const std::string text = rankTimesText({timed, untimed}, {{0, 41, "here"}, {1, 42, "there"}});
  std::istringstream lines(text);
  std::string line;
  std::vector<std::vector<std::string>> rows;
  while (std::getline(lines, line))
    if (line.find("1048576") != std::string::npos) rows.push_back(words(line));
  ASSERT_EQ(rows.size(), 2u) << text;
  EXPECT_EQ(rows[0],
            (std::vector<std::string>{"#", "1048576", "float", "sum", "0", "1.00", "2.00", "3.00", "here"}));
  EXPECT_EQ(rows[1], (std::vector<std::string>{"#", "1048576", "float", "sum", "1", "3.00", "7.00", "20.00",
                                               "there"}));
}

TEST(RowText, LinesUpWithItsHeader) {
  const Options options;
  std::istringstream header(columnsText(options));
  std::string titles;
  std::string names;
  std::getline(header, titles);
  std::getline(header, names);
  const std::string row = rowText(exampleRow());
  EXPECT_EQ(names.size() + 1, row.size());
  EXPECT_EQ(names.find("count") + 5, row.find("262144") + 6);
  EXPECT_EQ(words(names).size(), 14u);  // with the #
  EXPECT_LT(titles.find("out-of-place"), titles.find("in-place", titles.find("out-of-place") + 12));
}

TEST(RowText, AddsFourColumnsToEachHalfForIterationTimes) {
  Row row = exampleRow();
  IterationTimes times;
  for (int i = 1; i <= 100; ++i) times.times_us.push_back(i);
  row.out_of_place.iterations = times;
  row.in_place->iterations = times;
  const std::vector<std::string> columns = words(rowText(row));
  ASSERT_EQ(columns.size(), 21u);
  EXPECT_EQ(columns[9], "1.00");
  EXPECT_EQ(columns[10], "100.00");
  EXPECT_EQ(columns[11], "99.00");
  Options options;
  options.per_iteration = true;
  EXPECT_NE(columnsText(options).find("i_cv%"), std::string::npos);
}

TEST(FooterText, SaysWhetherDataAndBandwidthAreAsWished) {
  EXPECT_NE(footerText("x", {0, 5.0, -1}).find("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 5\n"),
            std::string::npos);
  EXPECT_NE(footerText("x", {3, 5.0, -1}).find("# Out of bounds values : 3 FAILED"), std::string::npos);
  EXPECT_NE(footerText("x", {0, 5.0, 5.5}).find("# Avg bus bandwidth    : 5 OK"), std::string::npos);
  EXPECT_NE(footerText("x", {0, 5.0, 5.6}).find("# Avg bus bandwidth    : 5 FAILED"), std::string::npos);
}

}  // namespace
}  // namespace horing::perf
