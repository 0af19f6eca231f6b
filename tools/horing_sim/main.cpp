// horing-sim: predicts the time of collectives on machines that the user describes.
#include <iostream>

#include "chrome_trace.h"
#include "cluster_picture.h"
#include "common/text_file.h"
#include "compare.h"
#include "goal.h"
#include "options.h"
#include "run_picture.h"
#include "run_report.h"

namespace horing {
namespace {

Status writeResult(const std::string& path, const Result<std::string>& text) {
  HORING_TRY(text.status());
  return writeFile(path, text.value());
}

// Records take memory: kept on request, and for a critical path of a small simulation.
constexpr int64_t kSlicesRecordedUnasked = 4'000'000;

Result<Prediction> predictWithRecords(const SimOptions& options) {
  HORING_ASSIGN(Prediction prediction, predict(options.question, Record::kNothing));
  const bool is_asked =
      !options.trace_path.empty() || !options.svg_path.empty() || !options.cluster_path.empty();
  if (prediction.result.slices > kSlicesRecordedUnasked && !is_asked) return prediction;
  return predictAgain(prediction, options.question.bytes, Record::kEverything);
}

Status run(const SimOptions& options) {
  HORING_ASSIGN(const Prediction prediction, predictWithRecords(options));
  HORING_ASSIGN(const std::string report, reportRun(prediction));
  std::cout << report;
  if (!options.trace_path.empty()) HORING_TRY(writeResult(options.trace_path, chromeTrace(prediction)));
  if (!options.svg_path.empty())
    HORING_TRY(writeResult(options.svg_path, drawRun(prediction, {options.drawn_ranks})));
  if (!options.cluster_path.empty()) HORING_TRY(writeResult(options.cluster_path, drawCluster(prediction)));
  if (!options.goal_path.empty()) HORING_TRY(writeResult(options.goal_path, goalText(prediction)));
  return {};
}

Status runComparison(const SimOptions& options) {
  HORING_ASSIGN(const ComparisonReport report, options.against == SimOptions::Against::kPaper
                                                   ? compareWithPaper(options.question.pipelining)
                                                   : compare(options.comparison));
  std::cout << report.table;
  if (!options.svg_path.empty()) HORING_TRY(writeResult(options.svg_path, drawChart(report.chart)));
  if (!options.csv_path.empty()) HORING_TRY(writeFile(options.csv_path, report.csv));
  return {};
}

Status select(const SimOptions& options) {
  HORING_ASSIGN(const std::string table, selectionText(options.selection));
  std::cout << table;
  return {};
}

int runProgram(int argc, char** argv) {
  SimOptions options;
  int exit_code = 0;
  if (!parseOptions(argc, argv, options, exit_code)) return exit_code;
  Status status;
  switch (options.command) {
    case SimOptions::Command::kRun:
      status = run(options);
      break;
    case SimOptions::Command::kCompare:
      status = runComparison(options);
      break;
    case SimOptions::Command::kSelect:
      status = select(options);
      break;
    case SimOptions::Command::kMachine:
      std::cout << describeMachine(options.question.machine);
      break;
  }
  if (status.ok()) return 0;
  std::cerr << "horing-sim: " << status.message() << "\n";
  return 1;
}

}  // namespace
}  // namespace horing

int main(int argc, char** argv) {
  return horing::runProgram(argc, argv);
}
