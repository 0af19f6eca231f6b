#pragma once
// What a node is and how it is set up, and in what it differs from the others.
#include <map>
#include <string>
#include <vector>

namespace horing::check {

// Name and value, as people read them.
using NodeFacts = std::map<std::string, std::string>;

// Of this machine, as far as it can be read.
NodeFacts gatherNodeFacts();

// As text for others, and back; text that is no such gives what can be read of it.
std::string factsToText(const NodeFacts& facts);
NodeFacts factsFromText(const std::string& text);

struct Difference {
  std::string name;
  std::string usual;  // what most have
  std::string value;  // what these nodes have; empty: they do not have it
  std::vector<int> nodes;
};
// By name. Of two values that are as frequent, the one of the lower node is the usual one.
std::vector<Difference> differences(const std::vector<NodeFacts>& of_nodes);

}  // namespace horing::check
