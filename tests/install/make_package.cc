// Writes a package of two stages, y = -relu(x), for a backend: make_package BACKEND TARGET
#include <iostream>

#include "penstock/partition/split.h"
#include "penstock/partition/test_graph.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  penstock::partition::TestGraph graph;
  graph.input("x").node("relu", "Relu", {"x"}, {"t"}).node("neg", "Neg", {"t"}, {"y"}).output("y");
  penstock::partition::SplitOptions options;
  options.by = penstock::partition::Cuts{{"relu"}};
  options.backend = argv[1];
  const auto plan = penstock::partition::split(graph, options, argv[2], {});
  if (!plan) std::cerr << plan.error().message() << '\n';
  return plan ? 0 : 1;
}
