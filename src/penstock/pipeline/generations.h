// Generations: the running plans of one pipeline, one until replace() starts another beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "penstock/base/cache_line.h"
#include "penstock/pipeline/past_traces.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/stats.h"
#include "penstock/pipeline/turns.h"

namespace penstock::pipeline {

/// Frames are pushed to the newest generation and popped from the oldest; each has its own numbers,
/// which follow on those of the one before. A generation goes when its last frame was popped; its
/// threads, models and slots go before, on a thread of their own (`ender`), once it was computed.
struct Generations {
  explicit Generations(std::shared_ptr<State> first);

  /// One that lives, for whoever has no turn. Of the hot paths none calls these.
  [[nodiscard]] std::shared_ptr<State> newest() const;
  [[nodiscard]] std::shared_ptr<State> oldest() const;
  [[nodiscard]] std::vector<std::shared_ptr<State>> all() const;  ///< Oldest first.
  // Those that may hold threads; of some all frames may have come out. Where one ends meanwhile,
  // others may be visited twice. These need no memory.

  /// \returns whether `visit` said true of all; it visits none after a false.
  template <typename Visit>
  bool visit_oldest_first(Visit visit) const {
    for (auto state = newer_than(nullptr); state != nullptr; state = newer_than(state.get())) {
      if (!visit(*state)) return false;
    }
    return true;
  }
  template <typename Visit>
  void visit_newest_first(Visit visit) const {
    for (auto state = older_than(nullptr); state != nullptr; state = older_than(state.get())) {
      visit(*state);
    }
  }
  /// The one that computes or computed the frame. Needs no memory.
  [[nodiscard]] std::shared_ptr<State> of(FrameNumber frame) const;
  void give_up();                 ///< As Pipeline::give_up(). Needs no memory.
  void hurry(FrameNumber frame);  ///< As Pipeline::hurry(). Needs no memory.
  void stop();                    ///< State::stop() of all. Needs no memory.

  /// Why the pipeline takes no frames, if it does not. One that was replaced is no reason.
  [[nodiscard]] std::optional<Error> closed_by() const;
  /// The newest one, which end() does not free meanwhile.
  struct Looked {
    std::shared_ptr<State> state;
    std::unique_lock<std::mutex> lock;
  };
  [[nodiscard]] Looked look() const;

  /// [n - 1]: calls of n frames of the first stage, of all generations since the first one.
  [[nodiscard]] std::vector<CallStats> first_calls() const;
  /// Of all plans since the first one, where so many frames were pushed.
  [[nodiscard]] std::vector<PlanStats> plans(FrameNumber pushed) const;
  /// Keeps what a generation counted; needs no memory. \pre  its threads have ended, and link() was
  /// called behind it
  void note_ended(const State& old);

  PastTraces past;
  /// Whether it was replaced, has given all its frames, and has ended.
  [[nodiscard]] bool is_over(const State& state) const;

  /// Takes the pusher's turn, for replace(), which ends it with end_pushers_turn().
  /// False: the pipeline was closed.
  bool take_pushers_turn();
  void end_pushers_turn();
  /// Whether it has it. Any thread, without waiting.
  [[nodiscard]] bool replacing() const { return replacing_.load(); }
  /// Takes the pusher's turn for what is done between two frames: who pushes one after the other
  /// hands it over. `what`: the function that asks.
  /// \error kFailedPrecondition  somebody has acquired an input and not pushed it yet, or replace()
  ///         has the turn, which may wait for the caller to pop; else why the pipeline is closed.
  Status take_turn_between_frames(std::string_view what);
  /// From now on frames go to `fresh`, the states' values aside. In the pusher's turn.
  /// \error  why the newest one was closed meanwhile, or of a device that has no room for the
  ///         values of parameters: nothing changes, nor where it throws std::bad_alloc.
  Status link(const std::shared_ptr<State>& fresh);
  /// The oldest one has given all its frames: the next one is popped from. In the popper's turn.
  /// False: there is none.
  bool pop_on();
  /// pop_on() as far as all frames have come out. Where all have callbacks nobody else does.
  void pop_on_unless_popped();
  const std::shared_ptr<Turns> turns;
  const std::vector<plan::TensorInfo> inputs;          // Of every generation.
  const plan::BoundValues bound;                       // Of every generation, too.
  alignas(kCacheLine) std::shared_ptr<State> pushing;  // In the pusher's turn: the newest.
  std::atomic<std::thread::id>
      acquirer;  // Who is between acquire_input and push_acquired, if anyone.
  alignas(kCacheLine) std::shared_ptr<State> popping;  // In the popper's turn: the oldest.

  std::mutex run_mutex;      // Pipeline::run(): one thread after the other.
  std::mutex replace_mutex;  // Pipeline::replace(): one at a time. Guards `ender`.
  std::thread ender;
  std::atomic<bool> ended{true};  // It need not be waited for.

 private:
  bool ask_for_turn();
  // Of those that may hold threads; of null the first. Null: there is none.
  [[nodiscard]] std::shared_ptr<State> newer_than(const State* state) const;
  [[nodiscard]] std::shared_ptr<State> older_than(const State* state) const;

  std::mutex asking_;                   // Who asks for the pusher's turn: one at a time.
  std::atomic<bool> replacing_{false};  // Changed with it held: replace() has the turn.
  mutable std::mutex mutex_;  // Guards `live_`. Taken before Ending::commit, where both are.
  std::deque<std::shared_ptr<State>> live_;  // Oldest first.
  // Guarded by it, too. Replaced, but perhaps still at work; one may have left `live_` before.
  std::vector<std::shared_ptr<State>> ending_;
  std::vector<CallStats> ended_calls_;     // Of those that were noted; as first_calls().
  std::vector<PlanStats> replaced_plans_;  // Those before `live_.back()`, as plans().
  FrameNumber first_frame_ = 0;            // Of `live_.back()`.
};

/// Assembles a generation, and starts no thread. \error as Pipeline::start()
Result<std::shared_ptr<State>> make_generation(const plan::Plan& plan,
                                               const std::filesystem::path& folder,
                                               const backend::Registry& backends,
                                               const Options& options);
/// Starts its threads, which warm up and wait at its gate. What was started is ended where one
/// fails. \error as Pipeline::start()
Status start_generation(State& state);

}  // namespace penstock::pipeline
