// Variants: other plans of the same models on the same CPUs, which need nothing to be written.
#pragma once

#include <string>
#include <vector>

#include "penstock/plan/plan.h"

namespace penstock::follow {

struct Variant {
  std::string name;  ///< "as it is", "whole on cpu:0", "whole on each", "stage0 and stage1 changed"
  plan::Plan plan;
  /// By stage: the stages of the original whose work it does.
  std::vector<std::vector<std::size_t>> from;
};

/// The plan itself is the first. Then, where its stages may be one: that on each device alone, on
/// all of them, and on all but one, and the same of each CPU where devices have several; and with
/// any two stages of one instance in each other's place. Left out is what has functions, parts on
/// other machines or at servers, several frames in a call, or calls in flight, and what
/// plan::violations() refuses.
std::vector<Variant> variants_of(const plan::Plan& plan);

}  // namespace penstock::follow
