#pragma once
// The text below a machine's picture: its ring and the reasons for it, then its fabrics and rails, in columns where they are many.
#include <string>
#include <vector>

#include "layout.h"
#include "plan.h"

namespace horing::topo {

// No picture is wider or higher, and this much of it is margin on each side. Pixels.
inline constexpr double kScreen = 1600, kMargin = 20;
inline constexpr double kNoteLine = 16;  // its height

class Notes {
 public:
  explicit Notes(const MachinePlan& plan);

  struct Note {
    double x = 0;  // from the left end of all
    double y = 0;  // from the first line
    std::string text;
  };
  const std::vector<Note>& all() const { return notes_; }
  Size size() const { return size_; }

 private:
  using Lines = std::vector<std::string>;
  void write(const Lines& texts);

  std::vector<Note> notes_;
  Size size_;
};

}  // namespace horing::topo
