// Selection: which frames the next call of an instance takes, and how long it waits for more.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/pipeline/instance.h"
#include "penstock/pipeline/meter.h"

namespace penstock::pipeline {

/// \threads  the worker's own, but let_out().
class Selection {
 public:
  explicit Selection(Instance& instance) : self_(instance) {}

  /// `most`: frames that one call takes at most. `first`: the first frame that comes.
  void set_most(FrameNumber most) { most_ = most; }
  [[nodiscard]] FrameNumber most() const { return most_; }
  void begin_at(FrameNumber first) { own_next_ = first; }

  /// The first frame that is nobody's yet and may be this instance's.
  FrameNumber next_frame();
  /// Whether the frame, whose inputs are there, is of another replica's streams.
  /// \pre  Stage::has_homes
  [[nodiscard]] bool is_of_others(FrameNumber frame) const;
  /// Those of the frames from `next` on, whose inputs are there, that one call may take. Where it
  /// waits for others, none of those behind frames that nothing is computed for. `meter`: of the
  /// instance's calls.
  /// \returns until when the call waits for more frames, in fill(); 0: it begins with `chosen`.
  std::int64_t choose(FrameNumber next, std::vector<FrameNumber>& chosen, const Meter& meter);
  /// Until a call that begins with the frame may be full, `until`, or something else is to be seen.
  void fill(FrameNumber first, std::int64_t until, const std::function<bool()>& interrupted);
  /// Where the call waits for more frames, and its first one is of [first, end): whether that one
  /// still waits is looked at again. Any thread, once what ends the waiting is there to be seen.
  void let_out(FrameNumber first, FrameNumber end);
  /// The first frame that the last choose() did not look at.
  [[nodiscard]] FrameNumber looked_until() const { return chosen_until_; }
  /// Whether frames that are there were left by the last choose(), where shapes are open: that of
  /// another shape woke the instance that waited for its like, and no other.
  [[nodiscard]] bool left_some() const { return left_some_; }
  /// The instance has these frames now. False: another one has some of them.
  bool take(const std::vector<FrameNumber>& chosen);

 private:
  static constexpr FrameNumber kNoFrame = UINT64_MAX;
  // As `filling_`: whichever comes next. An edge dropped the frame that waited, for a later one: if
  // that began to wait anew, and the next one after it, none would ever go.
  static constexpr FrameNumber kReplaced = UINT64_MAX;

  /// As choose(). \returns whether later frames may join them.
  bool choose_of_those_there(FrameNumber next, std::vector<FrameNumber>& chosen);
  /// Until when the call waits for more frames than those chosen, which some may leave; 0: not at
  /// all. `call_ns`: nanoseconds that a call takes, on average.
  std::int64_t fills_until(std::vector<FrameNumber>& chosen, std::int64_t call_ns);
  FrameNumber inputs_until(FrameNumber most);  ///< The first without inputs, but `most` at most.
  FrameNumber room_until(FrameNumber next, FrameNumber most);
  FrameNumber alike_until(FrameNumber next, FrameNumber most);
  [[nodiscard]] bool may_join(FrameNumber frame, const std::vector<FrameNumber>& chosen) const;
  /// Whether the frame, which is there, has the shape of those chosen; the first one gives it.
  bool is_of_shape(FrameNumber frame);
  /// Whether nobody waits for what becomes of the frame here.
  [[nodiscard]] bool is_lost(FrameNumber frame) const;
  /// Whether the frame takes a place in a call.
  [[nodiscard]] bool counts(FrameNumber frame) const {
    return self_.stage.feeds_state || !is_lost(frame);
  }
  /// Up to where inputs must come for a full call.
  [[nodiscard]] FrameNumber full_at(FrameNumber next) const;
  Wait& shortest();  ///< The input with the fewest frames.

  Instance& self_;
  FrameNumber most_ = 1;      // Frames that one call takes at most.
  FrameNumber own_next_ = 0;  // Where Stage::has_homes: every frame before it is taken.
  // The last choose() looked at the frames before this one. fills_until() and full_at(), which ask
  // how its choice may grow, go on from here.
  FrameNumber chosen_until_ = 0;
  FrameNumber counted_ = 0;      // Of the last choice, the frames that take a place in the call.
  FrameNumber kept_ = 0;         // Where Stage::most_kept: those looked at that are not lost.
  bool left_some_ = false;       // As left_some().
  std::uint64_t shape_ = 0;      // Of the last choice, on all of Stage::shaped_in; 0: not known.
  FrameNumber filling_ = 0;      // 1 + the frame that waits for others to go with it; 0: none.
  std::int64_t filling_ns_ = 0;  // Since when that frame waits: steady clock.
  // While the worker sleeps for others to go with it, the first frame of the call. Changed by
  // read-modify-write alone: of who sleeps and who lets out, the later one sees what the other did.
  std::atomic<FrameNumber> fills_{kNoFrame};
};

}  // namespace penstock::pipeline
