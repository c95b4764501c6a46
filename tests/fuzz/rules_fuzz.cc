// libFuzzer target over backends' rules.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "penstock/collage/candidates.h"
#include "penstock/collage/test_network.h"
#include "penstock/graph/subgraph.h"

/// Any text is a rule or an error; what a rule yields are convex sets, within the limits.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::collage;
  static const auto kGraph = TestNetwork()
                                 .node("a", "Conv", {"x"})
                                 .node("b", "Sigmoid", {"a"})
                                 .node("c", "Mul", {"a", "b"})
                                 .node("d", "Split", {"c"}, {"d2"})
                                 .node("e", "Relu", {"d2"})
                                 .node("f", "Add", {"d", "e", "a"})
                                 .get();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_rules(text, "a user's file");
  const auto rule = parse_rule(text, "a fuzzer's rules");
  if (!rule) return 0;
  Limits limits;
  limits.max_candidates = 40;
  for (const auto& units : {each_node(kGraph), make_units(kGraph, {}, {}, {.max_units = 3})}) {
    const auto found = candidates(kGraph, units, "fuzz", *rule, limits);
    if (!found) std::abort();
    for (const auto& candidate : *found) {
      if (!penstock::graph::Subgraph::create(kGraph, candidate.nodes)) std::abort();
    }
  }
  return 0;
}
