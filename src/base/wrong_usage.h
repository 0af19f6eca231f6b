#pragma once
// What programs say of a wrong command line.
#include <string>

namespace horing {

// The program's name comes first: of ranks, and of the commands of a script, nothing else tells who speaks. `App` is CLI::App, which this
// library does without.
template <class App>
void nameProgramInErrors(App& app) {
  app.failure_message([](const App* program, const auto& error) {
    return program->get_name() + ": " + error.what() + "\nRun with --help for more information.\n";
  });
}

}  // namespace horing
