#pragma once
// The contract that every transport keeps, stated once in contract_*_test.cpp and run for every
// TransportCase.
//
// To put a transport under it: write <name>_case.cpp with a TransportFixture, declare its factory at the
// bottom of this file and add it to contractCases() in contract_cases.cpp.
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace horing::testing {

// Makes transports that can all reach each other. Lives longer than the transports it made; a test makes one
// fixture.
class TransportFixture {
 public:
  virtual ~TransportFixture() = default;
  // One transport per rank 0 .. ranks-1, not yet linked. Failing to make them is a test failure that the
  // fixture reports (ADD_FAILURE) before it returns fewer.
  virtual std::vector<std::unique_ptr<Transport>> make(int ranks) = 0;
  // Whether a message whose sender was flushed() can be received after that sender's transport is destroyed.
  virtual bool keepsMessagesOfDeparted() const { return true; }
  // Breaks the connections for which `chosen` returns true, while both ranks live; returns their number.
  virtual int breakConnections(const std::function<bool()>& /*chosen*/) { return 0; }
  // Whether there is anything that could break.
  virtual bool canBreak() const { return false; }
};

struct TransportCase {
  const char* name;  // of the test instance: letters and digits
  std::function<std::unique_ptr<TransportFixture>()> make_fixture;
};

inline std::ostream& operator<<(std::ostream& out, const TransportCase& which) {
  return out << which.name;
}

// Every case of this build.
std::vector<TransportCase> contractCases();

// socket_case.cpp
std::vector<TransportCase> socketCases();
// verbs_case.cpp; on real devices where there are any
std::vector<TransportCase> verbsCases();

}  // namespace horing::testing
