#pragma once
// A plan as a picture: memory per rank to the right, time of communication upwards, both logarithmic; the limit as a line.
#include <string>
#include <vector>

#include "horing_paro/question.h"

namespace horing::paro {

// SVG that follows the reader's light or dark setting.
std::string planChart(const Question& question, const Plan& plan);

// Where labels go, apart from the picture so that a test can look.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;  // x, y: the upper left corner
};
struct Spot {
  double x = 0, y = 0;  // a point of the picture
  double label_width = 0;
};
inline constexpr double kLabelHeight = 15;
inline constexpr double kSpotRadius = 6;

bool overlap(const Box& a, const Box& b);

// A box for the label of each spot, as near as can be: inside `area`, over no spot and no other label, as long as there is room.
std::vector<Box> placeLabels(const std::vector<Spot>& spots, const Box& area);

}  // namespace horing::paro
