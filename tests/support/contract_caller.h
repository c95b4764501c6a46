// Who pushes and pops a case's frames, and what it sees.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/pipeline/pipeline.h"
#include "tests/support/contract_model.h"
#include "tests/support/contract_plant.h"

namespace penstock::contract {

/// So long that only a standstill takes it.
inline constexpr std::chrono::seconds kStandstill{60};
struct Popped {
  std::uint64_t number = 0;
  std::int64_t tag = 0;
  std::uint64_t stream = 0;
  pipeline::Outcome outcome = pipeline::Outcome::kOk;
  Error error;
  std::vector<Words> outputs;
};

/// What came out.
struct Seen {
  std::optional<Error> refused;  ///< By start().
  std::vector<Event> events;
  std::map<std::uint64_t, std::int64_t> pushed;  ///< Number -> tag.
  std::vector<Popped> popped;
  std::vector<Popped> called;          ///< Given to callbacks, in this order.
  std::set<std::uint64_t> cancelled;   ///< By their numbers; each before it came out.
  bool ended = false;                  ///< pop() said that nothing comes any more.
  bool shut = false;                   ///< A push was refused since the pipeline was closed.
  std::uint64_t cancelled_before = 0;  ///< By the caller: cancel(), give_up(), the destructor.
  int hung = 0;
  std::optional<std::uint64_t> swapped;  ///< The first frame of the other plan.
  pipeline::Stats stats;                 ///< Once ended.
  std::vector<std::string> wrong;
};

class Caller {
 public:
  Caller(const Case& given, Plant& plant, pipeline::Pipeline& running, Seen& seen)
      : given_(given),
        plant_(plant),
        pipeline_(running),
        seen_(seen),
        dice_(given.seed ^ 0xca11U),
        lossy_(plant.lossy()) {
    most_held_ = std::min(given.hold, running.in_flight_limit() - 1 + given.max_held);
    // Frames that are called back go on, however far, beside those that are held.
    if (given.called > 0) most_held_ = std::min(most_held_, given.max_held);
    for (const auto& edge : plant.plan().edges) {
      if (edge.to.back() == plan::kPipelineOutput) {
        most_held_ = std::min(most_held_, edge.capacity - 1 + given.max_held);
      }
    }
  }

  void run() {
    if (given_.runs) return run_calls();
    std::thread meddler;
    if (given_.meddles) {
      if (given_.end != End::kClose) seen_.cancelled_before = UINT64_MAX;
      meddler = std::thread([&] {
        // Among the calls, or soon after the last one.
        const int calls = given_.end_at * static_cast<int>(given_.stages.size());
        for (int i = 0; i < 16 * given_.end_at && plant_.calls() < calls; ++i)
          std::this_thread::yield();
        act();
      });
    }
    given_.pushers > 0 ? run_beside_pushers() : run_alone();
    if (meddler.joinable()) meddler.join();
    if (!seen_.ended) return;
    while (calls_due() > 0 && !stuck_) await_callback();
    seen_.stats = pipeline_.stats();
    // A push that is refused as the pipeline stops may have begun its stream.
    if (given_.pushers == 0 && !given_.meddles && !stuck_ && !seen_.swapped && !seen_.shut) {
      if (seen_.stats.streams != known_.size()) wrong("another number of streams is known");
      if (seen_.stats.streams_evicted != evicted_) wrong("another number of streams was evicted");
    }
  }

  /// Results may outlive the pipeline, callbacks do not.
  void release_all() {
    collect();
    while (!held_.empty()) release(0);
  }

 private:
  struct Held {
    pipeline::Output output;
    std::size_t position;  // In Seen::popped.
  };
  struct Known {
    int in_flight = 0;
    std::int64_t last = 0;  // The larger, the later it was used last: had a frame, or was restored.
  };

  void wrong(const std::string& text) {
    if (seen_.wrong.size() < 8) seen_.wrong.push_back(text);
  }

  [[nodiscard]] std::vector<Tensor> inputs_of(std::int64_t tag) const {
    std::vector<Tensor> inputs;
    inputs.reserve(at(given_.inputs()));
    for (int i = 0; i < given_.inputs(); ++i) {
      inputs.push_back(tensor_of(input_of(given_, tag, i), given_.tensors[at(i)].items));
    }
    return inputs;
  }

  [[nodiscard]] pipeline::FrameOptions options_of(std::int64_t tag) {
    pipeline::FrameOptions options{.tag = static_cast<std::uint64_t>(tag),
                                   .stream = stream_of(given_, tag),
                                   .priority = priority_of(tag)};
    if (is_past(given_, tag)) {
      options.deadline = std::chrono::steady_clock::now() - std::chrono::milliseconds(1);
    }
    if (calls_back(given_, tag)) {
      options.done = [this](pipeline::Output output) { arrive(std::move(output)); };
      options.in_order = in_order(tag);
    }
    return options;
  }

  [[nodiscard]] pipeline::Priority priority_of(std::int64_t tag) const {
    return is_urgent(given_, tag) ? pipeline::Priority::kHigh : pipeline::Priority::kNormal;
  }

  // Callbacks, by a thread of the pipeline's.

  void arrive(pipeline::Output output) {
    auto out = look_at(output);
    {
      const auto released = std::move(output);
    }  // Who sees it finds room.
    {
      const std::scoped_lock lock(arrivals_);
      arrived_.push_back(std::move(out));
    }
    arrival_.notify_all();
  }
  void collect() {
    const std::scoped_lock lock(arrivals_);
    for (auto& out : arrived_) {
      leave(out.tag);
      seen_.called.push_back(std::move(out));
    }
    arrived_.clear();
  }
  void await_callback() {
    {
      std::unique_lock lock(arrivals_);
      if (!arrival_.wait_for(lock, kStandstill, [&] { return !arrived_.empty(); })) {
        stuck_ = true;
        return wrong("a standstill: no callback is called");
      }
    }
    collect();
  }

  Result<std::uint64_t> push(std::int64_t tag, std::chrono::nanoseconds timeout) {
    if (!given_.borrow) return pipeline_.push(inputs_of(tag), timeout, options_of(tag));
    PENSTOCK_TRY(const auto slots, pipeline_.acquire_input(timeout, priority_of(tag)));
    for (int i = 0; i < given_.inputs(); ++i) {
      auto& slot = slots[at(i)];
      const auto words = input_of(given_, tag, i);
      const bool items = given_.tensors[at(i)].items;
      const auto rows = static_cast<std::int64_t>(words.size() / 2);
      if (items && slot.dims().front() != kMostItems) {
        wrong_beside("an acquired input is not at its bound");
      }
      if (items && !slot.set_dims(std::vector<std::int64_t>{rows, 2})) {
        wrong_beside("an acquired input has no room for its bound");
        continue;
      }
      std::ranges::copy(words, slot.as<std::int64_t>().begin());
    }
    return pipeline_.push_acquired(options_of(tag));
  }
  // Any number: what is out or was never pushed too.
  void cancel_one() {
    const auto number = static_cast<std::uint64_t>(dice_.below(seen_.pushed.size() + 2));
    if (!pipeline_.cancel(number)) return;
    if (!seen_.cancelled.insert(number).second) wrong(concat("cancelled ", number, " twice"));
  }
  void wrong_beside(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    wrong(text);
  }

  // An edge refuses a frame by its policy; a slot to be filled is refused where readers hold all.
  [[nodiscard]] bool input_may_be_full() const {
    return std::ranges::any_of(plant_.plan().edges, [&](const plan::Edge& edge) {
      if (edge.from != plan::kPipelineInput) return false;
      return edge.policy == plan::FullPolicy::kError ||
             (given_.borrow && edge.policy != plan::FullPolicy::kBlock);
    });
  }

  // One thread that pushes and pops.
  void run_alone() {
    for (std::int64_t tag = 1; tag <= given_.frames && !seen_.shut && !stuck_; ++tag) {
      if (tag - 1 == given_.end_at && !given_.meddles && !end()) return;
      if (tag - 1 == given_.bad_swap_at) swap_badly();
      if (tag - 1 == given_.swap_at) swap();
      if (tag - 1 == given_.drain_at) drain();
      if (given_.nags) nag();
      push_one(tag);
      if (given_.cancels && dice_.one_in(3)) cancel_one();
      while (!plant_.settling() && !stuck_ && in_flight() > 0 &&
             (given_.pops == Pops::kAtOnce || (given_.pops == Pops::kAnyTime && dice_.one_in(2)))) {
        take_one();
      }
    }
    if (given_.end_at == given_.frames && !given_.meddles && !end()) return;
    if (plant_.settling() && !pipeline_.drain(kStandstill)) wrong("a standstill of drain()");
    pipeline_.close();
    while (!stuck_ && !seen_.ended) pop();
  }

  void swap() {
    const auto replaced = plant_.replace(pipeline_);
    if (!replaced) {
      if (replaced.error().code != Code::kCancelled) wrong(replaced.error().message());
      return;
    }
    seen_.swapped = seen_.pushed.size();
    seen_.events.push_back({Event::Kind::kSwap, 0, 0, {}});
  }
  void swap_badly() {
    if (plant_.replace_badly(pipeline_)) wrong("a plan that cannot start took another's place");
  }
  /// Whether frames of the plan before are in flight, of which the new one's streams know nothing.
  [[nodiscard]] bool between_plans() const {
    const auto before = [&](const Popped& out) { return out.number < seen_.swapped; };
    const auto out =
        std::ranges::count_if(seen_.popped, before) + std::ranges::count_if(seen_.called, before);
    return seen_.swapped && static_cast<std::uint64_t>(out) < *seen_.swapped;
  }

  [[nodiscard]] std::size_t in_flight() const { return pops_due() + calls_due(); }
  [[nodiscard]] std::size_t calls_due() const { return calls_ - seen_.called.size(); }
  [[nodiscard]] std::size_t pops_due() const {
    return seen_.pushed.size() - calls_ - seen_.popped.size();
  }

  void note_pushed(std::uint64_t number, std::int64_t tag) {
    seen_.pushed[number] = tag;
    if (calls_back(given_, tag)) ++calls_;
  }

  // Room comes as one comes out.
  void take_one() {
    collect();
    if (pops_due() > 0) {
      pop();
    } else if (calls_due() > 0) {
      await_callback();
    }
  }

  void push_one(std::int64_t tag) {
    while (!stuck_) {
      // Where nothing is popped meanwhile, room comes of itself.
      const auto number = push(tag, plant_.settling() ? kStandstill : pipeline::kNoWait);
      if (number) {
        if (*number != seen_.pushed.size()) wrong(concat("push gave number ", *number));
        note_pushed(*number, tag);
        enter(tag);
        seen_.events.push_back({Event::Kind::kPush, tag, 0, {}});
        return;
      }
      if (number.error().code == Code::kCancelled) {
        seen_.shut = true;
        return;
      }
      if (number.error().code == Code::kResourceExhausted && must_end_one(tag) &&
          contains(number.error().message(), "end_stream")) {
        if (!end_a_stream()) pop();
        continue;
      }
      if (number.error().code == Code::kResourceExhausted && input_may_be_full()) {
        if (in_flight() > 0) take_one();
        return;  // The frame is refused.
      }
      if (number.error().code != Code::kDeadlineExceeded) return wrong(number.error().message());
      if (in_flight() > 0) {
        take_one();
      } else if (!held_.empty()) {
        release(0);
      } else {
        return wrong("nothing is in flight and yet: " + number.error().message());
      }
    }
  }

  // Streams, where one thread pushes and pops.

  [[nodiscard]] bool all_taken(std::int64_t tag) const {
    return !known_.contains(stream_of(given_, tag)) && std::ssize(known_) == given_.most_streams;
  }
  [[nodiscard]] bool must_end_one(std::int64_t tag) const {
    return all_taken(tag) && !given_.evicts;
  }

  /// Of the idle streams, the one used last longest ago; 0: there is none.
  [[nodiscard]] std::uint64_t idle_longest() const {
    std::uint64_t found = 0;
    for (const auto& [stream, known] : known_) {
      if (stream == 0 || known.in_flight > 0) continue;
      if (found == 0 || known.last < known_.at(found).last) found = stream;
    }
    return found;
  }

  void forget(std::uint64_t stream) {
    known_.erase(stream);
    seen_.events.push_back({Event::Kind::kEnd, 0, stream, {}});
  }

  // A frame was taken.
  void enter(std::int64_t tag) {
    if (all_taken(tag)) {
      const auto gone = idle_longest();
      if (!given_.evicts || gone == 0) return wrong("took a frame of one stream too many");
      forget(gone);
      ++evicted_;
    }
    auto& known = known_[stream_of(given_, tag)];
    ++known.in_flight;
    known.last = ++uses_;
  }

  /// False: none is idle.
  bool end_a_stream() {
    const auto stream = idle_longest();
    if (stream == 0) return false;
    const auto ended = pipeline_.end_stream(stream);
    if (!ended) wrong(ended.error().message());
    forget(stream);
    return true;
  }

  // One that is known is reset, saved or restored.
  void nag_stream() {
    auto picked = known_.begin();
    std::advance(picked, dice_.below(known_.size()));
    const auto stream = picked->first;
    const bool idle = picked->second.in_flight == 0;
    // A callback may be on its way.
    const bool sure = idle || (calls_due() == 0 && !between_plans());
    const auto check = [&](const char* what, std::optional<Code> code) {
      if (code != Code::kCancelled && code.has_value() == idle && sure) {
        wrong(concat(what, " of a stream ", idle ? "that is idle: refused" : "in flight: done"));
      }
      return !code.has_value();
    };
    const auto choice = dice_.below(3);
    if (choice == 0 && check("reset", code_of(pipeline_.reset_stream(stream)))) {
      seen_.events.push_back({Event::Kind::kEnd, 0, stream, {}});
    } else if (choice == 1 && !given_.has(Fault::kHang)) {
      const auto saved = pipeline_.save_stream(stream);
      if (!check("save", code_of(saved))) return;
      Event event{Event::Kind::kSave, 0, stream, {}};
      for (const auto& [name, value] : *saved) event.states.push_back(words_of(value));
      seen_.events.push_back(std::move(event));
    } else if (choice == 2) {
      Event event{Event::Kind::kRestore, 0, stream, {}};
      pipeline::Named states;
      for (std::size_t i = 0; i < given_.states.size(); ++i) {
        event.states.push_back({dice_.below(100), dice_.below(100)});
        states.emplace_back(Plant::state(i), tensor_of(event.states.back(), false));
      }
      if (check("restore", code_of(pipeline_.restore_stream(stream, states)))) {
        seen_.events.push_back(std::move(event));
        picked->second.last = ++uses_;
      }
    }
  }

  void pop() {
    auto popped = pipeline_.pop(kStandstill);
    if (!popped) {
      stuck_ = true;
      return wrong("a standstill: " + popped.error().message());
    }
    if (!*popped) {
      seen_.ended = true;
      return;
    }
    keep(**std::move(popped));
  }

  static Popped look_at(const pipeline::Output& output) {
    Popped out{output.number(),
               static_cast<std::int64_t>(output.tag()),
               output.stream(),
               output.outcome(),
               {},
               {}};
    if (!output.ok()) out.error = output.error();
    for (std::size_t i = 0; i < output.size(); ++i) out.outputs.push_back(words_of(output[i]));
    return out;
  }

  void leave(std::int64_t tag) {
    if (given_.pushers == 0) --known_.at(stream_of(given_, tag)).in_flight;
  }

  void keep(pipeline::Output output) {
    seen_.popped.push_back(look_at(output));
    leave(seen_.popped.back().tag);
    if (most_held_ <= 0) return;
    held_.push_back({std::move(output), seen_.popped.size() - 1});
    const auto span = [&] { return held_.back().output.number() - held_.front().output.number(); };
    while (span() >= static_cast<std::uint64_t>(most_held_)) release(0);
    if (dice_.one_in(3)) release(at(dice_.below(held_.size())));
  }

  void release(std::size_t which) {
    auto& held = held_[which];
    const auto& known = seen_.popped[held.position];
    const bool takes = held.output.ok() && dice_.one_in(4);
    for (std::size_t i = 0; i < held.output.size(); ++i) {
      if (words_of(held.output[i]) != known.outputs[i]) {
        wrong(concat("frame ", known.number, " changed while it was held"));
      }
    }
    if (takes && words_of(held.output.take(0)) != known.outputs.front()) {
      wrong(concat("frame ", known.number, ": take() gave another value"));
    }
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  /// False: nothing more is popped.
  bool end() {
    if (given_.end != End::kClose) seen_.cancelled_before = UINT64_MAX;
    // What is pushed from now on is computed.
    if (given_.end == End::kGiveUp && given_.pushers == 0) {
      seen_.cancelled_before = seen_.pushed.size();
    }
    act();
    return given_.end != End::kDestroy;
  }

  void act() {
    switch (given_.end) {
      case End::kClose:
        pipeline_.close();
        break;
      case End::kCancel:
        pipeline_.cancel();
        break;
      case End::kGiveUp:
        pipeline_.give_up();
        break;
      case End::kDestroy:
        break;
    }
  }

  // An input that was acquired, and then misused.
  void nag_acquired() {
    const auto& edges = plant_.plan().edges;
    if (std::ranges::none_of(edges, [](const auto& e) { return e.from == plan::kPipelineInput; })) {
      return;  // Nobody reads the inputs.
    }
    const auto slots = pipeline_.acquire_input(pipeline::kNoWait);
    if (!slots) return;
    const auto again = pipeline_.acquire_input(pipeline::kNoWait);
    if (again || again.error().code != Code::kFailedPrecondition) wrong("acquired twice");
    const auto pushed = pipeline_.try_push(inputs_of(1));
    if (pushed || pushed.error().code != Code::kFailedPrecondition) {
      wrong("pushed beside an acquired input");
    }
    if (dice_.one_in(2)) return pipeline_.release_input();
    std::ranges::fill(*slots, Tensor::allocate(DType::kF32, {2}));
    const auto spoilt = pipeline_.push_acquired();
    if (spoilt || spoilt.error().code != Code::kInvalidArgument) {
      wrong("took a spoilt input");
    }
  }

  template <typename T>
  static std::optional<Code> code_of(const Result<T>& result) {
    return result ? std::optional<Code>() : std::optional(result.error().code);
  }

  // What is refused, and what only few frames see.
  void nag() {
    collect();
    if (dice_.one_in(3)) nag_inputs();
    if (dice_.one_in(4)) nag_acquired();
    if (dice_.one_in(3) && !plant_.plan().parameters.empty()) set_parameter();
    if (dice_.one_in(4)) reset();
    if (dice_.one_in(2) && !(seen_.swapped && given_.states.empty())) nag_stream();
    if (dice_.one_in(6) && !lossy_) drain();
    if (dice_.one_in(6) && in_flight() == 0) {
      const auto nothing = pipeline_.try_pop();
      const bool none =
          nothing ? !nothing->has_value() : nothing.error().code == Code::kDeadlineExceeded;
      if (!none) wrong("popped what nobody pushed");
    }
  }

  // Where edges drop, more may be in flight than the output holds: it says so after a second.
  void drain() {
    auto drained = pipeline_.drain(kStandstill);
    if (!drained && lossy_ && drained.error().code == Code::kFailedPrecondition) {
      while (!stuck_ && in_flight() > 0) take_one();
      drained = pipeline_.drain(kStandstill);
    }
    if (!drained) wrong("a standstill: " + drained.error().message());
  }

  void nag_inputs() {
    auto inputs = inputs_of(1);
    dice_.one_in(2) ? inputs.pop_back() : void(inputs[0] = Tensor::allocate(DType::kF32, {2}));
    if (code_of(pipeline_.try_push(inputs)) != Code::kInvalidArgument) wrong("took a wrong input");
    if (code_of(pipeline_.push_acquired()) != Code::kFailedPrecondition) {
      wrong("pushed what nobody acquired");
    }
  }

  void set_parameter() {
    const std::int64_t value = dice_.below(1000);
    auto tensor = Tensor::allocate(DType::kI64, {1});
    tensor.as<std::int64_t>()[0] = value;
    const auto set = pipeline_.set_parameters("", {{"parameter", tensor}});
    if (!set) wrong("set_parameters: " + set.error().message());
    seen_.events.push_back({Event::Kind::kParameter, value, 0, {}});
  }

  void reset() {
    const auto code = code_of(pipeline_.reset_states());
    if (!code) seen_.events.push_back({Event::Kind::kReset, 0, 0, {}});
    if (code == Code::kCancelled || code.has_value() == (in_flight() > 0)) return;
    if (between_plans() || (pops_due() == 0 && calls_due() > 0)) return;
    wrong(concat("reset_states with ", in_flight(),
                 " frames in flight: ", code ? "refused" : "done"));
  }

  // Threads that each have their frames computed.
  void run_calls() {
    std::vector<std::thread> threads;
    threads.reserve(at(given_.pushers));
    for (int p = 0; p < given_.pushers; ++p) {
      threads.emplace_back([&, p] {
        for (std::int64_t tag = 1 + p; tag <= given_.frames; tag += given_.pushers) run_call(tag);
      });
    }
    for (auto& thread : threads) thread.join();
  }

  void run_call(std::int64_t tag) {
    const auto expected = Model(given_, {}).run({{Event::Kind::kPush, tag, 0, {}}}).front();
    const auto computed = pipeline_.run(inputs_of(tag), options_of(tag));
    std::vector<Words> outputs;
    if (computed) {
      for (const auto& tensor : *computed) outputs.push_back(words_of(tensor));
    }
    const bool right = computed ? expected.failures.empty() && outputs == expected.outputs
                                : !expected.failures.empty();
    if (right) return;
    wrong_beside(concat("run() of tag ", tag, ": ",
                        computed ? "not its values" : computed.error().message()));
  }

  // Threads that push; this one pops.
  void run_beside_pushers() {
    std::atomic<int> pushing = given_.pushers;
    std::vector<std::thread> threads;
    threads.reserve(at(given_.pushers + given_.poppers));
    for (int p = 0; p < given_.pushers; ++p) {
      threads.emplace_back([&, p] {
        for (std::int64_t tag = 1 + p; tag <= given_.frames && push_beside(tag);) {
          tag += given_.pushers;
        }
        if (--pushing == 0) pipeline_.close();
      });
    }
    for (int p = 0; p < given_.poppers; ++p) {
      threads.emplace_back([&] { pop_beside(); });
    }
    given_.poppers > 0 ? pop_beside() : pop_until_end();
    for (auto& thread : threads) thread.join();
    std::ranges::sort(seen_.popped, {}, &Popped::number);
    for (const auto& [number, tag] : seen_.pushed) {
      seen_.events.push_back({Event::Kind::kPush, tag, 0, {}});
    }
  }

  void pop_until_end() {
    bool goes_on = true;
    while (goes_on && !stuck_ && !seen_.ended) {
      if (std::ssize(seen_.popped) == given_.end_at && !given_.meddles) goes_on = end();
      if (goes_on) pop();
    }
    if (!seen_.ended) pipeline_.cancel();
  }

  void pop_beside() {
    for (;;) {
      auto popped = pipeline_.pop(kStandstill);
      if (!popped) {
        wrong_beside("a standstill: " + popped.error().message());
        return pipeline_.cancel();
      }
      const std::scoped_lock lock(mutex_);
      if (!*popped) {
        seen_.ended = true;
        return;
      }
      keep(**std::move(popped));
    }
  }

  bool push_beside(std::int64_t tag) {
    const auto number = push(tag, kStandstill);
    const std::scoped_lock lock(mutex_);
    if (number) {
      note_pushed(*number, tag);
      return true;
    }
    if (number.error().code == Code::kResourceExhausted && input_may_be_full()) return true;
    if (number.error().code == Code::kCancelled) {
      seen_.shut = true;
    } else {
      wrong(number.error().message());
    }
    return false;
  }

  const Case& given_;
  Plant& plant_;
  pipeline::Pipeline& pipeline_;
  Seen& seen_;
  Dice dice_;
  const bool lossy_;
  int most_held_ = 0;
  std::deque<Held> held_;
  bool stuck_ = false;
  std::map<std::uint64_t, Known> known_{{0, {}}};  // Streams, where one thread pushes and pops.
  std::uint64_t evicted_ = 0;
  std::int64_t uses_ = 0;  // Of streams.
  std::size_t calls_ = 0;  // Frames pushed that have callbacks.
  std::mutex mutex_;       // Guards what pushers write of `seen_`, and calls_ there.
  std::mutex arrivals_;    // Guards the last.
  std::condition_variable arrival_;
  std::vector<Popped> arrived_;  // Given to callbacks, not collected.
};

}  // namespace penstock::contract
