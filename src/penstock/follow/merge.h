// Merge: stages of a plan that follow one another as one. Internal to follow.
#pragma once

#include <cstddef>
#include <vector>

#include "penstock/plan/plan.h"

namespace penstock::follow {

using Devices = std::vector<device::Device>;

/// Whether it computes a network's part on CPUs of this machine, frame by frame.
bool is_plain(const plan::Stage& stage);
/// Whether the two may be one stage, as far as their settings go.
bool are_alike(const plan::Stage& a, const plan::Stage& b);

/// Of all stages, each once, as they come first.
Devices devices_of(const plan::Plan& plan);

/// The stages from `begin` to before `end` as one on these devices. What nobody outside reads stays
/// inside. \pre begin < end
plan::Stage merged(const plan::Plan& plan, std::size_t begin, std::size_t end,
                   const Devices& devices);

/// What happens where the ends of the pipeline are full stays as in `of`.
void keep_policies(const plan::Plan& of, plan::Plan& plan);

/// What a stage takes on devices of fewer CPUs, at most, over what it takes on those before: an
/// engine gains no more by CPUs than there are. \pre  none is empty
double slower(const Devices& before, const Devices& now);

}  // namespace penstock::follow
