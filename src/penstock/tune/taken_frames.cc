// Runs the reference frame by frame, and names the frames that it refuses.
#include "penstock/tune/taken_frames.h"

#include <cstddef>
#include <utility>

#include "penstock/measure/reference.h"
#include "penstock/tune/budget.h"
#include "penstock/tune/gate.h"

namespace penstock::tune {
namespace {

constexpr double kShare = 0.2;         // Of the budget.
constexpr std::size_t kNamedOnes = 5;  // Of those that are refused.

std::string name_of(const Options& options, std::size_t frame) {
  if (frame >= options.frame_names.size() || options.frame_names[frame].empty()) {
    return concat("frame ", frame);
  }
  return concat("frame ", frame, " (", options.frame_names[frame], ")");
}

}  // namespace

TakenFrames take_frames(const Options& options, const std::filesystem::path& model,
                        const plan::Package& package, const backend::Registry& backends) {
  const auto reference = measure::whole_reference(model, package, backends, {});
  if (!reference) return {options.frames, {}};
  const Budget budget(kShare * options.budget_seconds, Budget::Clock::now());
  const auto least = options.states.empty() ? kGateFrames : kSequenceFrames;
  TakenFrames taken;
  std::size_t asked = 0, refused = 0;
  for (; asked < options.frames.size() && !options.stopped(); ++asked) {
    if (taken.frames.size() >= least && budget.spent() > budget.seconds()) break;
    const auto outputs = (*reference)->run(options.frames[asked]);
    if (outputs) {
      taken.frames.push_back(options.frames[asked]);
    } else if (++refused <= kNamedOnes) {
      taken.notes.push_back(
          concat(name_of(options, asked),
                 " is left out, as the reference refuses it: ", outputs.error().message()));
    }
  }
  if (taken.frames.empty()) return {options.frames, {}};
  if (refused > kNamedOnes) {
    taken.notes.push_back(concat("so are ", refused - kNamedOnes, " further frames"));
  }
  if (asked < options.frames.size() && !options.stopped()) {
    taken.notes.push_back(concat("of ", options.frames.size(), " frames the first ", asked,
                                 " are used: the reference takes too long for more of them"));
  }
  return taken;
}

}  // namespace penstock::tune
