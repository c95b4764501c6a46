// Pipeline::replace(): another plan takes the place of the one that runs.
#include <algorithm>
#include <future>
#include <new>
#include <utility>

#include "penstock/base/hash.h"
#include "penstock/base/option_name.h"
#include "penstock/base/thread.h"
#include "penstock/base/words.h"
#include "penstock/pipeline/fits.h"
#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/worker.h"

namespace penstock::pipeline {
namespace {

// Whether what one plan takes or gives the other does too; symbols of open dimensions are names.
bool same_type(const Type& a, const Type& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.ranked == b.ranked && a.onnx == b.onnx &&
         std::ranges::equal(a.dims, b.dims, [](const Dim& one, const Dim& other) {
           return one.size == other.size && one.bound == other.bound;
         });
}

Status check_same(const char* what, const std::vector<plan::TensorInfo>& old,
                  const std::vector<plan::TensorInfo>& fresh) {
  if (!std::ranges::equal(old, fresh, {}, &plan::TensorInfo::name, &plan::TensorInfo::name)) {
    return invalid_argument("the ", what, "s: expected ", quoted_names(old),
                            ", as the pipeline has them, found ", quoted_names(fresh));
  }
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (same_type(old[i].type, fresh[i].type)) continue;
    return invalid_argument(what, " '", old[i].name, "': expected ", to_string(old[i].type),
                            ", as the pipeline has it, found ", to_string(fresh[i].type));
  }
  return {};
}

// To whom some are missing. `what`: "state"; `option`: by which they are given.
std::string same_ones(const char* what, OptionName option) {
  return concat("; give it the same ", what, "s (", option, ")");
}

// A model whose states were not given has them as inputs and outputs.
Status check_inputs(const plan::Plan& old, const plan::Plan& fresh) {
  Status same = check_same("input", old.inputs, fresh.inputs);
  const auto was_state = [&](const plan::TensorInfo& input) {
    return std::ranges::find(old.states, input.name, &plan::StateEdge::to) != old.states.end();
  };
  if (same || std::ranges::none_of(fresh.inputs, was_state)) return same;
  return std::move(same).error().adding(same_ones("state", OptionName::kStates));
}

// `fresh`: the type of what has the name in the new plan, if anything does.
Status check_carried(const char* what, OptionName option, const std::string& name, const Type& old,
                     const Type* fresh) {
  if (fresh != nullptr && same_type(old, *fresh)) return {};
  return invalid_argument(
      what, " '", name, "': expected ", to_string(old), ", as its value is carried over, found ",
      fresh == nullptr ? concat("no ", what, " of that name", same_ones(what, option))
                       : to_string(*fresh));
}

// A state goes by the name of what is read at the next frame.
Status check_states(const plan::Plan& old, const plan::Plan& fresh) {
  for (const auto& state : old.states) {
    const auto same = std::ranges::find(fresh.states, state.to, &plan::StateEdge::to);
    const Type* type = same == fresh.states.end() ? nullptr : &fresh.find_tensor(same->to)->type;
    PENSTOCK_CHECK_OK(check_carried("state", OptionName::kStates, state.to,
                                    old.find_tensor(state.to)->type, type));
  }
  if (old.states.empty() || fresh.streams.most >= old.streams.most) return {};
  return invalid_argument("streams: expected at least ", old.streams.most,
                          ", as the pipeline allows, whose states are carried over, found ",
                          fresh.streams.most, "; split it with ",
                          in_words_of_caller(concat("--streams ", old.streams.most),
                                             concat("streams=", old.streams.most)));
}

Status check_parameters(const plan::Plan& old, const plan::Plan& fresh) {
  for (const auto& parameter : old.parameters) {
    const auto same = std::ranges::find(fresh.parameters, parameter.name, &plan::Parameter::name);
    PENSTOCK_CHECK_OK(check_carried("parameter", OptionName::kParameters, parameter.name,
                                    parameter.type,
                                    same == fresh.parameters.end() ? nullptr : &same->type));
  }
  return {};
}

// Who sends the value of a bound input is answered alike before and after.
Status check_bound_inputs(const plan::Plan& old, const plan::Plan& fresh) {
  const auto same = [&](const plan::BoundInput& a, const plan::BoundInput& b) {
    if (a.name != b.name || a.type != b.type || a.value != b.value) return false;
    const auto hash = old.files.find(a.file), other = fresh.files.find(b.file);
    return a.file.empty() ? b.file.empty()
                          : hash != old.files.end() && other != fresh.files.end() &&
                                hash->second == other->second;
  };
  if (std::ranges::equal(old.bound_inputs, fresh.bound_inputs, same)) return {};
  const auto texts = [](const plan::Plan& plan) {
    const auto text = [](const plan::BoundInput& input) {
      return concat(input.name, "=", input.value.empty() ? "a file's" : input.value);
    };
    return plan.bound_inputs.empty() ? "none" : join(plan.bound_inputs, ", ", text);
  };
  return invalid_argument("bound inputs: expected those of the plan that runs, ", texts(old),
                          ", found ", texts(fresh));
}

}  // namespace

Status check_fits(const plan::Plan& old, const plan::Plan& fresh) {
  PENSTOCK_CHECK_OK(plan::validate(fresh));
  PENSTOCK_CHECK_OK(check_inputs(old, fresh));
  PENSTOCK_CHECK_OK(check_same("output", old.outputs, fresh.outputs));
  PENSTOCK_CHECK_OK(check_bound_inputs(old, fresh));
  PENSTOCK_CHECK_OK(check_states(old, fresh));
  return check_parameters(old, fresh);
}

namespace {

// Whether the plan could start again, from the files that it was started from.
Status check_files(const State& state) {
  const auto refuse = [](const auto&... what) {
    return make_error(Code::kFailedPrecondition,
                      "an engine does not stand twice in the process, so that what runs must end "
                      "first, and its ",
                      what...);
  };
  for (const auto& stage : state.plan.stages) {
    for (const auto& partition : stage.partitions) {
      std::error_code absent;
      const auto file = state.folder / partition.model;
      if (partition.model.empty() || std::filesystem::exists(file, absent)) continue;
      return refuse("model '", partition.model,
                    "' is gone, with which it would start again; keep its package as a folder");
    }
  }
  for (const auto& [file, hash] : state.plan.files) {
    const auto found = sha256_of_file(state.folder / file);
    if (found && (hash.empty() || *found == hash)) continue;
    return refuse("file '", file, found ? "' has changed since" : "' cannot be read",
                  ", with which it would start again; keep its package as it is, and put the new "
                  "one into another folder");
  }
  return {};
}

// Whether the new plan's first frame comes behind the old one's last: it reads its states, or a
// stateful function sees both, as both plans may call the same one.
bool goes_on_behind(const plan::Plan& old, const plan::Plan& fresh) {
  const auto keeps = [](const plan::Plan& plan) {
    return std::ranges::any_of(plan.stages, &plan::Stage::stateful);
  };
  return !old.states.empty() || keeps(old) || keeps(fresh);
}

/// What the states of a stream are behind its last frame, beside State::states.
struct StreamStates {
  std::uint64_t stream = 0;
  std::vector<Tensor> values;
};

// \pre  all frames were computed, and no other comes in.
Result<std::vector<StreamStates>> save_states(const State& state) {
  std::vector<StreamStates> saved;
  if (state.states.empty()) return saved;
  for (const std::uint64_t stream : state.streams->by_age()) {
    const auto seat = *state.streams->find(stream);
    auto& of_stream = saved.emplace_back(StreamStates{.stream = stream, .values = {}});
    for (const auto& edge : state.states) {
      PENSTOCK_TRY(Tensor value, edge->saved(seat, state.steps(seat)));
      of_stream.values.push_back(std::move(value));
    }
  }
  return saved;
}

// The new plan's next frame reads them. \pre  it runs, and no plan goes on in the old one's place.
Status restore_states(const State& old, State& fresh, const std::vector<StreamStates>& saved) {
  fresh.begin_at(old.source.done());  // As Generations::link() does: states go by frames.
  for (const auto& [stream, values] : saved) {
    const auto reset = [&](Streams::Seat given, FrameNumber step) {
      return fresh.reset_states(given, step);  // Those that the old plan does not have stay so.
    };
    PENSTOCK_TRY(const auto seat, fresh.streams->admit(stream, reset));
    for (std::size_t s = 0; s < values.size(); ++s) {
      const auto& name = old.plan.states[s].to;
      const auto same =
          std::ranges::find_if(fresh.states, [&](const auto& e) { return e->to == name; });
      PENSTOCK_CHECK_OK((*same)->set(seat, fresh.steps(seat), values[s]));
    }
  }
  return {};
}

// The end of the old generation, on the ender's thread.
void end_old(Generations& generations, State& old, State& fresh) {
  old.wait_until_workers_left(kNever);
  old.end();
  generations.note_ended(old);
  generations.ended = true;
  fresh.delivery.release();
}

Error within_callback() {
  return make_error(Code::kFailedPrecondition,
                    "a callback of a frame calls it, and a plan ends once its callbacks have "
                    "returned: it would wait for itself; call it on another thread");
}

Error within_brief_callback() {
  return make_error(Code::kFailedPrecondition,
                    "a brief callback of a frame calls it, perhaps on the thread of a stage, and "
                    "states and stateful functions go on once the stages have computed all frames: "
                    "it would wait for itself; call it on another thread");
}

using MayGo = Pipeline::MayGo;

/// One call of replace(), which has Generations::replace_mutex.
class Swap {
 public:
  Swap(Generations& generations, const backend::Registry& backends, const MayGo& may_go)
      : generations_(generations), backends_(backends), may_go_(may_go) {}

  Status run(const plan::Plan& plan, const std::filesystem::path& folder, Options options) {
    PENSTOCK_CHECK_OK(end_the_one_before());
    old_ = generations_.newest();
    if (old_->ending.closed()) return old_->ending.error();
    generations_.past.settle(options.spans_kept,
                             [&](const State& state) { return generations_.is_over(state); });
    PENSTOCK_CHECK_OK(check_fits(old_->plan, plan));
    options.stopped = [this, asked = std::move(options.stopped)] {
      return generations_.closed_by() || (asked && asked());
    };
    PENSTOCK_TRY(auto fresh, make_generation(plan, folder, backends_, options));
    Status started = guarded([&] { return start_generation(*fresh); });
    const auto engine_is_taken = [](const auto& worker) { return worker->engine_is_taken(); };
    if (started) {
      started = guarded([&] { return run_beside(fresh); });
    } else if (std::ranges::any_of(fresh->workers, engine_is_taken)) {
      PENSTOCK_TRY(fresh, make_generation(plan, folder, backends_, options));
      started = guarded([&] { return run_alone(fresh); });
    }
    fresh->options.stopped = nullptr;  // It refers to this.
    if (started) return {};
    fresh->end();
    // What ended the pipeline meanwhile is the reason of whatever went wrong with it.
    return old_->ending.closed() && !old_->ending.replaced() ? old_->ending.error()
                                                             : std::move(started);
  }

 private:
  [[nodiscard]] bool calls_back() const { return Delivery::is_in_callback(*generations_.turns); }

  // So that at most two generations hold threads, models and slots.
  Status end_the_one_before() {
    auto before = generations_.all();
    before.pop_back();
    if (!generations_.ended && calls_back()) return within_callback();
    for (const auto& state : before) PENSTOCK_CHECK_OK(state->drain(kForever, kNever, kAllPushed));
    if (generations_.ender.joinable()) generations_.ender.join();
    generations_.pop_on_unless_popped();
    return {};
  }

  // Both plans run at once, unless the new one's frames come behind: then pushers wait until the
  // old one's are computed.
  Status run_beside(const std::shared_ptr<State>& fresh) {
    const bool behind = goes_on_behind(old_->plan, fresh->plan);
    if (behind && calls_back() && Delivery::is_in_brief_callback()) {
      return within_brief_callback();
    }
    std::promise<bool> linked;  // First of all there is a thread for the end.
    PENSTOCK_CHECK_OK(start_thread(
        generations_.ender,
        [&generations = generations_, old = old_, fresh, goes = linked.get_future()]() mutable {
          if (goes.get()) end_old(generations, *old, *fresh);
        }));
    Status done = may_go();
    if (done) done = guarded([&] { return go_on_beside(fresh); });  // The ender waits for `linked`.
    generations_.ended = !done;
    linked.set_value(static_cast<bool>(done));
    if (!done) generations_.ender.join();
    return done;
  }

  Status go_on_beside(const std::shared_ptr<State>& fresh) {
    return in_pushers_turn([&]() -> Status {
      if (goes_on_behind(old_->plan, fresh->plan)) {
        PENSTOCK_CHECK_OK(old_->drain(kForever, kNever, kAllPushed));
      }
      PENSTOCK_TRY(const auto saved, save_states(*old_));
      PENSTOCK_CHECK_OK(restore_states(*old_, *fresh, saved));
      return go_on_with(fresh);
    });
  }

  [[nodiscard]] Status may_go() const {
    return may_go_ ? guarded([&] { return may_go_(); }) : Status();
  }

  template <typename Body>
  Status in_pushers_turn(Body body) {
    if (!generations_.take_pushers_turn()) return old_->ending.error();
    Status done = guarded(body);
    generations_.end_pushers_turn();
    return done;
  }

  // An engine does not stand twice in the process: the old plan ends, then the new one starts.
  Status run_alone(const std::shared_ptr<State>& fresh) {
    if (calls_back()) return within_callback();
    PENSTOCK_CHECK_OK(check_files(*old_));
    Options options = old_->options;
    options.stopped = nullptr;
    // Takes the old one's place, and no frame, until it is clear which plan goes on.
    PENSTOCK_TRY(const auto between,
                 make_generation(old_->plan, old_->folder, old_->backends, options));
    return in_pushers_turn([&]() -> Status {
      PENSTOCK_CHECK_OK(old_->drain(kForever, kNever, kAllPushed));
      PENSTOCK_CHECK_OK(generations_.link(between));
      Status done = guarded([&] { return start_behind(*between, fresh); });
      if (generations_.newest() != between) generations_.note_ended(*between);
      if (done || generations_.newest() != between) return done;
      Status cause = guarded([&]() -> Status { return done; });  // Memory may be out again.
      between->cancel(std::move(cause).error());
      return done;
    });
  }

  Status start_behind(const State& between, const std::shared_ptr<State>& fresh) {
    old_->wait_until_workers_left(kNever);
    const auto saved = guarded([&] { return save_states(*old_); });
    old_->end();
    generations_.note_ended(*old_);
    if (!saved) return saved.error();
    Status started = start_in_its_place(*fresh, *saved);
    if (started) started = may_go();
    if (started) started = guarded([&] { return go_on_with(fresh); });
    if (started) {
      fresh->delivery.release();
      return started;
    }
    fresh->end();  // The old one starts again in its place.
    PENSTOCK_TRY(const auto again,
                 make_generation(between.plan, between.folder, between.backends, between.options));
    Status restored = start_in_its_place(*again, *saved);
    if (restored) restored = guarded([&] { return go_on_with(again); });
    if (!restored) again->end();
    again->delivery.release();
    if (restored) return started;
    return std::move(started).error().adding(
        concat("; and the plan before it did not start again: ", restored.error().message()));
  }

  Status start_in_its_place(State& next, const std::vector<StreamStates>& saved) {
    return guarded([&]() -> Status {
      PENSTOCK_CHECK_OK(start_generation(next));
      return restore_states(*old_, next, saved);
    });
  }

  // Its first frame is the next one.
  Status go_on_with(const std::shared_ptr<State>& fresh) {
    PENSTOCK_CHECK_OK(generations_.link(fresh));
    fresh->gate.open();
    return {};
  }

  Generations& generations_;
  const backend::Registry& backends_;
  const MayGo& may_go_;
  std::shared_ptr<State> old_;
};

}  // namespace

Status Pipeline::replace(const plan::Plan& plan, const std::filesystem::path& folder,
                         const backend::Registry& backends, const Options& options,
                         const MayGo& may_go) {
  const auto replaced = [&]() -> Status {
    if (generations_->acquirer.load() == std::this_thread::get_id()) {
      return make_error(Code::kFailedPrecondition,
                        "an acquired input is not pushed yet; call push_acquired first");
    }
    // Whoever has it may wait for the callback that calls this.
    std::unique_lock lock(generations_->replace_mutex, std::defer_lock);
    const bool has_it = !Delivery::is_in_callback(*generations_->turns) || lock.try_lock();
    if (!has_it) return within_callback();
    if (!lock.owns_lock()) lock.lock();
    return Swap(*generations_, backends, may_go).run(plan, folder, options);
  };
  return guarded([&]() -> Status {
    if (Status done = replaced(); !done) return std::move(done).error().within("replace");
    return {};
  });
}

}  // namespace penstock::pipeline
