// Runs the reference frame by frame, and names the frames that it refuses.
#include "penstock/measure/taken_frames.h"

#include <chrono>

#include "penstock/measure/slow_runs.h"

namespace penstock::measure {
namespace {

constexpr std::size_t kNamedFrames = 5;  // Of those that are refused.

std::string name_of(const GivenFrames& given, std::size_t frame) {
  if (frame >= given.names.size() || given.names[frame].empty()) return concat("frame ", frame);
  return concat("frame ", frame, " (", given.names[frame], ")");
}

}  // namespace

TakenFrames take_frames(Reference& reference, const GivenFrames& given) {
  const LimitedRuns limited(reference, kLongestRun);
  const auto begin = std::chrono::steady_clock::now();
  const auto count = given.frames.size();
  TakenFrames taken;
  std::size_t asked = 0, refused = 0;
  bool too_long = false;  // For all of them.
  for (; asked < count && !given.stopped(); ++asked) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    too_long = taken.frames.size() >= given.least && spent.count() > given.seconds;
    if (too_long) break;
    const auto outputs = reference.run(given.frames[asked]);
    if (outputs) {
      taken.frames.push_back(given.frames[asked]);
    } else if (is_endless(outputs)) {
      taken.notes.push_back(concat(name_of(given, asked), " is left out, and those behind it: ",
                                   endless_run(kLongestRun).message()));
      break;
    } else if (++refused <= kNamedFrames) {
      taken.notes.push_back(
          concat(name_of(given, asked),
                 " is left out, as the reference refuses it: ", outputs.error().message()));
    }
  }
  if (taken.frames.empty()) return {given.frames, {}};
  if (refused > kNamedFrames) {
    taken.notes.push_back(concat("so are ", refused - kNamedFrames, " further frames"));
  }
  if (too_long && !given.stopped()) {
    taken.notes.push_back(concat("of ", count, " frames the first ", asked,
                                 " are used: the reference takes too long for more of them"));
  }
  return taken;
}

}  // namespace penstock::measure
