// Runs the reference frame by frame, and names the frames that it refuses.
#include "penstock/measure/taken_frames.h"

#include <chrono>

namespace penstock::measure {
namespace {

constexpr std::size_t kNamedFrames = 5;  // Of those that are refused.

std::string name_of(const GivenFrames& given, std::size_t frame) {
  if (frame >= given.names.size() || given.names[frame].empty()) return concat("frame ", frame);
  return concat("frame ", frame, " (", given.names[frame], ")");
}

}  // namespace

TakenFrames take_frames(Reference& reference, const GivenFrames& given) {
  const auto begin = std::chrono::steady_clock::now();
  const auto count = given.frames.size();
  TakenFrames taken;
  std::size_t asked = 0, refused = 0;
  for (; asked < count && !given.stopped(); ++asked) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (taken.frames.size() >= given.least && spent.count() > given.seconds) break;
    const auto outputs = reference.run(given.frames[asked]);
    if (outputs) {
      taken.frames.push_back(given.frames[asked]);
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
  if (asked < count && !given.stopped()) {
    taken.notes.push_back(concat("of ", count, " frames the first ", asked,
                                 " are used: the reference takes too long for more of them"));
  }
  return taken;
}

}  // namespace penstock::measure
