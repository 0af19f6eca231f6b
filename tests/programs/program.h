#pragma once
// Runs the project's programs from a test.
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"

namespace horing::test {

// A program that was started. It is killed when this object ends. Resource.
class Program {
 public:
  // command[0] is searched on PATH. `prepare` runs in the child before the program does.
  explicit Program(const std::vector<std::string>& command, const std::function<void()>& prepare = nullptr);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int signal_number) const;
  // Exit code, or 128 + signal. Fails the test, and kills the program, when that takes longer than
  // `deadline`.
  int wait(std::chrono::seconds deadline = std::chrono::seconds(120));
  // What the program and its children have written so far.
  std::string output() const;
  std::string errors() const;

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
  Fd output_;
  Fd errors_;
};

// A program that ran to its end.
struct Outcome {
  int code = 0;
  std::string output;
  std::string errors;
};
Outcome runProgram(const std::vector<std::string>& command);

// Why horing-run cannot emulate nodes here; empty if it can. Fails the test if horing-run reports that it cannot although
// everything needed (namespaces, links and queues in them) is available.
std::string whyNoNodes(const char* horing_run);
// The rest of the test needs emulated nodes.
#define HORING_NEEDS_NODES()                                                                          \
  if (const std::string why_none = ::horing::test::whyNoNodes(HORING_RUN_PROGRAM); !why_none.empty()) \
  GTEST_SKIP() << why_none

// Polls until `condition` holds; false when it does not within `deadline`.
bool eventually(const std::function<bool()>& condition,
                std::chrono::seconds deadline = std::chrono::seconds(60));

// Lines of `text` in alphabetical order.
std::vector<std::string> sortedLines(const std::string& text);

// A process with this number runs (and is no zombie).
bool processRuns(pid_t pid);

}  // namespace horing::test
