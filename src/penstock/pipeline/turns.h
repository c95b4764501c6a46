// Turns: whose turn it is to push and to pop. The generations of a pipeline have them in common.
#pragma once

#include <atomic>
#include <cstdint>

#include "penstock/base/cache_line.h"
#include "penstock/pipeline/parker.h"

namespace penstock::pipeline {

/// The turns outlive every generation, so that a thread that waits for one touches none. Who has
/// the pusher's turn may use Generations::pushing, and who has the popper's Generations::popping:
/// these change in that turn only.
struct Turns {
  /// replace() asks for the pusher's turn, and whoever has it hands it over instead of going on:
  /// threads that push one frame after the other would never let it in.
  enum class Wish : std::uint8_t { kNone, kWanted, kHanded };

  alignas(kCacheLine) Turn pusher;
  std::atomic<Wish> wish{Wish::kNone};  // Beside the turn: it is read at each push.
  alignas(kCacheLine) Turn popper;

  [[nodiscard]] bool wanted() const {
    return wish.load(std::memory_order_seq_cst) == Wish::kWanted;
  }
  /// In the pusher's turn. True: it is another's now.
  bool hand_over();
  /// Takes the pusher's turn. False: `closed()` was true at a call of pusher.wake_all() or before.
  template <typename Closed>
  bool take(Closed closed) {
    const auto over = [&] { return closed() || wish.load() == Wish::kHanded; };
    if (pusher.begin(kNever, over)) {
      wish.store(Wish::kNone);
      return true;
    }
    return wish.exchange(Wish::kNone) == Wish::kHanded;
  }
};

inline bool Turns::hand_over() {
  auto expected = Wish::kWanted;
  if (!wanted() || !wish.compare_exchange_strong(expected, Wish::kHanded)) return false;
  pusher.wake_all();
  return true;
}

}  // namespace penstock::pipeline
