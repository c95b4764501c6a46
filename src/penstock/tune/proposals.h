// Proposals: what enters the contest, once it was seen to run in a process of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <set>

#include "penstock/base/result.h"
#include "penstock/tune/context.h"

namespace penstock::tune {

/// One backend for the whole network.
struct WholeNetwork {
  Cover cover;
  bool on_each = true;  ///< Device; or one call on the CPUs of all.
  double rate = 0;      ///< Frames per second, by what one part alone was measured at; 0: unknown.
};

/// Borrows the context. One thread.
class Proposals {
 public:
  explicit Proposals(Context& context) : context_(context) {}

  /// On each device, or on one where there are states, or one call on the CPUs of all.
  [[nodiscard]] Contestant whole(const graph::Graph& graph, const Cover& cover, bool on_each) const;

  /// The place among the contest's entries; none: a stage does not run in a process of its own, or
  /// the time to try it was up.
  using Place = Result<std::optional<std::size_t>>;
  Place enter(Contestant contestant);
  /// Of stages that have run as they are.
  Place enter_again(Contestant contestant) { return run_beside_best(std::move(contestant)); }
  /// A whole network on each device that fails is no rival and no bound from then on.
  Place enter_whole(const Cover& cover, bool on_each);
  /// What runs the clean import so, on the file as it is: an engine may know its form better. It is
  /// timed first, as all that an engine has not compiled before. None, too: there is no other form,
  /// or it is hopeless.
  Place enter_as_is(const WholeNetwork& like);

  /// Beside the comparison that follows, for a whole network that is tried already.
  [[nodiscard]] bool has_room_for(const Cover& cover) const;
  /// Entries that run the whole network on each device.
  [[nodiscard]] const std::set<std::size_t>& singles() const { return singles_; }
  /// That ran the best on each device; where none did, as there is no memory for so many copies or
  /// the devices' time was up, the best by the measured parts. Empty: nothing is known.
  [[nodiscard]] Cover best_cover() const;

 private:
  Place run_beside_best(Contestant contestant);
  const graph::Graph* find_other_form();

  Context& context_;
  std::set<std::size_t> singles_;
  std::optional<const graph::Graph*> other_form_;  ///< find_other_form()'s, once it was asked for.
};

}  // namespace penstock::tune
