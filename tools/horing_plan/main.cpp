// horing-plan: prints, draws and proves schedules.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "algorithms/catalogue.h"
#include "common/text_file.h"
#include "lane_diagram.h"
#include "options.h"
#include "schedule/network.h"
#include "schedule/text.h"
#include "schedule/verify.h"

namespace horing {
namespace {

Result<std::vector<Schedule>> readSchedules(const std::string& path) {
  std::stringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream file(path);
    if (!file.is_open())
      return makeStatus(Code::kInvalidArgument,
                        "'%s' is neither an algorithm (see 'horing-plan list') nor a file that can be read",
                        path.c_str());
    text << file.rdbuf();
  }
  Result<std::vector<Schedule>> schedules = parseSchedules(text.str());
  if (!schedules.ok())
    return makeStatus(Code::kInvalidArgument, "%s: %s", path.c_str(), schedules.status().message().c_str());
  if (schedules.value().empty())
    return makeStatus(Code::kInvalidArgument, "%s holds no schedule", path.c_str());
  return schedules;
}

Result<std::vector<Schedule>> buildSchedules(const PlanOptions& options, Collective collective) {
  if (options.shape.ranks() > kMaxVerifiedRanks)
    return makeStatus(Code::kInvalidArgument, "%d nodes of up to %d are more than %d ranks in all",
                      options.shape.groups, options.shape.members, kMaxVerifiedRanks);
  std::vector<Schedule> all;
  for (int32_t position = 0; position < options.shape.ranks(); ++position) {
    HORING_ASSIGN(Schedule schedule, buildSchedule(options.what, collective, options.shape, position));
    all.push_back(std::move(schedule));
  }
  return all;
}

// "2 nodes x 4 ranks = 8 ranks", or "4 + 3 ranks = 7 ranks"
std::string shapeText(const Shape& shape) {
  if (shape.rails) {
    std::string text;
    for (const int32_t size : shape.rails.sizes()) text += (text.empty() ? "" : " + ") + std::to_string(size);
    return text + formatString(" ranks = %d ranks", shape.ranks());
  }
  return formatString("%d node%s x %d rank%s = %d rank%s", shape.groups, shape.groups == 1 ? "" : "s",
                      shape.members, shape.members == 1 ? "" : "s", shape.ranks(),
                      shape.ranks() == 1 ? "" : "s");
}

void list() {
  size_t widest = 0;
  for (const Algorithm& algorithm : algorithmCatalogue())
    widest = std::max(widest, std::string_view(algorithm.name).size());
  const int width = static_cast<int>(widest) + 2;
  for (const Algorithm& algorithm : algorithmCatalogue()) {
    std::cout << formatString("%-*s%s\n%-*s", width, algorithm.name, algorithm.summary, width, "");
    const char* separator = "";
    for (int i = 0; i < kCollectives; ++i) {
      const auto collective = static_cast<Collective>(i);
      if (!algorithm.has(collective)) continue;
      std::cout << separator << collectiveName(collective);
      separator = ", ";
    }
    std::cout << "\n";
  }
}

// The schedules to show: from a file, or of an algorithm and the first collective asked for.
Result<std::vector<Schedule>> schedulesToShow(PlanOptions& options) {
  if (findAlgorithm(options.what)) return buildSchedules(options, options.collectives[0]);
  Result<std::vector<Schedule>> schedules = readSchedules(options.what);
  if (!schedules.ok()) return schedules;
  const Schedule& first = schedules.value()[0];
  options.shape = first.rails ? Shape::of(first.rails.sizes()) : Shape{1, std::max(first.grid.columns, 1)};
  return schedules;
}

Status show(PlanOptions& options) {
  HORING_ASSIGN(const std::vector<Schedule> all, schedulesToShow(options));
  if (options.position >= static_cast<int32_t>(all.size()))
    return makeStatus(Code::kInvalidArgument, "--position %d: there are positions 0 to %zu", options.position,
                      all.size() - 1);
  if (findAlgorithm(options.what))
    std::cout << "# " << options.what << ", " << shapeText(options.shape) << "\n";
  for (size_t position = 0; position < all.size(); ++position)
    if (options.position < 0 || options.position == static_cast<int32_t>(position))
      std::cout << formatSchedule(all[position]);
  if (options.svg_path.empty()) return {};
  HORING_ASSIGN(const Timeline timeline, computeTimeline(all));
  HORING_ASSIGN(const std::string picture,
                drawLanes(all, timeline, {options.shape.members, options.position, options.shape.rails}));
  return writeFile(options.svg_path, picture);
}

Status verifyAll(const std::vector<Schedule>& all, const PlanParameters& plan) {
  const auto start = std::chrono::steady_clock::now();
  HORING_TRY(verifyValues(all, InPlace::kNo));
  HORING_TRY(verifyValues(all, InPlace::kYes));
  HORING_TRY(verifyProgress(all, plan));
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  int64_t steps = 0;
  for (const Schedule& schedule : all)
    for (const Lane& lane : schedule.lanes) steps += lane.stepCount();
  std::cout << formatString(
      "ok: %s %s, %zu ranks, %lld steps: values right in place and not; ends with %d slices, window %d, %d "
      "per message, "
      "%d slots, %d of scratch (%.2f ms)\n",
      all[0].algorithm.c_str(), collectiveName(all[0].collective), all.size(), static_cast<long long>(steps),
      plan.slices, plan.window[0], plan.message_slices, plan.slots, plan.scratch_slices, elapsed.count());
  return {};
}

Status verify(const PlanOptions& options) {
  const Algorithm* algorithm = findAlgorithm(options.what);
  if (!algorithm) {
    HORING_ASSIGN(const std::vector<Schedule> all, readSchedules(options.what));
    return verifyAll(all, options.parameters);
  }
  int proven = 0;
  for (Collective collective : options.collectives) {
    if (!algorithm->has(collective) && options.collectives.size() > 1) continue;
    HORING_ASSIGN(const std::vector<Schedule> all, buildSchedules(options, collective));
    if (proven == 0) std::cout << "# " << options.what << ", " << shapeText(options.shape) << "\n";
    HORING_TRY(verifyAll(all, options.parameters));
    ++proven;
  }
  return proven > 0 ? Status()
                    : makeStatus(Code::kInternalError, "%s has no collective to verify", algorithm->name);
}

int run(int argc, char** argv) {
  PlanOptions options;
  int exit_code = 0;
  if (!parseOptions(argc, argv, options, exit_code)) return exit_code;
  Status status;
  switch (options.command) {
    case PlanOptions::Command::kList:
      list();
      break;
    case PlanOptions::Command::kShow:
      status = show(options);
      break;
    case PlanOptions::Command::kVerify:
      status = verify(options);
      break;
  }
  if (status.ok()) return 0;
  std::cerr << "horing-plan: " << status.message() << "\n";
  return 1;
}

}  // namespace
}  // namespace horing

int main(int argc, char** argv) {
  return horing::run(argc, argv);
}
