#include "pipeline.h"

#include <algorithm>
#include <exception>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include "callback.h"
#include "dicts.h"
#include "errors.h"
#include "gil.h"
#include "held.h"
#include "penstock/base/words.h"
#include "penstock/plan/plan_json.h"
#include "penstock/session/session.h"
#include "penstock/tune/report.h"
#include "tensors.h"
#include "text.h"
#include "to_object.h"

namespace penstock::python {
namespace {

constexpr auto kForever = std::chrono::nanoseconds::max();
constexpr std::chrono::milliseconds kBetweenLooks(1);

/// How many frames later a slot is wanted back at the latest.
constexpr std::uint64_t kLongestLoan = 4;

/// Every pipeline of the process. Under the GIL.
std::set<Pipeline*>& all_pipelines() {
  static auto* pipelines = new std::set<Pipeline*>;
  return *pipelines;
}

template <typename T>
bool is_late(const Result<T>& result) {
  return !result && result.error().code == Code::kDeadlineExceeded;
}

/// Waits until try_pop() gives something. Signals are looked at last, and what came is not taken
/// yet: an exception of a handler leaves it there.
Status await_output(pipeline::Pipeline& running, std::chrono::nanoseconds timeout) {
  PENSTOCK_CHECK_OK(
      wait_in_slices(timeout, [&](auto slice) { return running.await_output(slice); }));
  check_signals();
  return {};
}

std::chrono::nanoseconds to_duration(std::optional<double> seconds) {
  if (!seconds) return kForever;
  if (!(*seconds >= 0)) {
    raise(invalid_argument("timeout: expected 0 or more seconds or None, found ", *seconds));
  }
  constexpr double kLongest = 1e9;  // Thirty years; more would not fit.
  if (*seconds > kLongest) return kForever;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(*seconds));
}

/// `seconds` of time.monotonic(), which is the steady clock.
std::chrono::steady_clock::time_point to_time(double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLongest = 1e9;  // Thirty years; more would not fit.
  const std::chrono::duration<double> since_start(std::clamp(seconds, 0.0, kLongest));
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(since_start));
}

/// May throw std::bad_alloc alone.
void warn_of(const pipeline::Pipeline::LeftBehind& left_behind) {
  for (const auto& call : left_behind.calls) {
    warn(call + "; with max_run_ms=... a call that hangs is an error of its frame");
  }
  for (const auto& callback : left_behind.callbacks) warn(callback);
}

/// Nobody else ends the threads: where memory is refused, it is asked for again.
/// \pre the caller does not hold the GIL, which the threads may want.
void wait_and_delete(pipeline::Pipeline* running) noexcept {
  for (;;) {
    try {
      if (running->end(kPatience)) break;
      const auto left_behind = running->leave_behind();
      const WithGil gil;
      warn_of(left_behind);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
  delete running;
}

/// Whoever drops the last reference has the GIL. A forked child has only the memory of the threads.
void end(pipeline::Pipeline* running, std::uint64_t generation, Later& later) noexcept {
  if (generation != fork_generation()) return;
  if (on_library_thread()) {
    later.begin([=] { wait_and_delete(running); });  // Perhaps a stage of this one let it go.
  } else {
    without_gil([&] { wait_and_delete(running); });
  }
}

/// Whether others than the caller may still use an output's memory, so that it cannot be moved out.
bool is_shared(const plan::Plan& plan, const std::string& output) {
  return std::ranges::any_of(plan.edges, [&](const plan::Edge& edge) {
    return std::ranges::find(edge.tensors, output) != edge.tensors.end() &&
           std::ranges::find(edge.to, plan::kPipelineOutput) != edge.to.end() &&
           (edge.from == plan::kPipelineInput || edge.to.size() > 1);
  });
}

/// How many frames may come out before the first of them must have given its slot back.
std::uint64_t slots_of_output(const plan::Plan& plan, const pipeline::Pipeline& running) {
  int least = running.in_flight_limit();
  const auto stats = running.stats();
  for (std::size_t i = 0; i < plan.edges.size() && i < stats.edges.size(); ++i) {
    const auto& to = plan.edges[i].to;
    if (std::ranges::find(to, plan::kPipelineOutput) == to.end()) continue;
    least = std::min(least, stats.edges[i].capacity);
  }
  return static_cast<std::uint64_t>(std::max(least, 1));
}

/// Leaves its calls in progress to themselves, with a warning of each. What it finds no memory for
/// is left to wait_and_delete().
void leave_behind(pipeline::Pipeline& running) {
  try {
    warn_of(running.leave_behind());
  } catch (const std::bad_alloc&) {
    return;
  }
}

/// Drops the reference at its end, under the GIL.
class LetGoUnderGil {
 public:
  explicit LetGoUnderGil(std::shared_ptr<pipeline::Pipeline>& kept) : kept_(kept) {}
  ~LetGoUnderGil() {
    const WithGil gil;
    kept_.reset();
  }
  LetGoUnderGil(const LetGoUnderGil&) = delete;
  LetGoUnderGil& operator=(const LetGoUnderGil&) = delete;

 private:
  std::shared_ptr<pipeline::Pipeline>& kept_;
};

/// Counts a call while it lasts.
class Counted {
 public:
  explicit Counted(std::atomic<int>& calls) : calls_(calls) { ++calls_; }
  ~Counted() { --calls_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& calls_;
};

}  // namespace

Pipeline::Pipeline(plan::Package package, std::unique_ptr<pipeline::Pipeline>&& running,
                   RunOptions run)
    : package_(std::make_shared<const plan::Package>(std::move(package))),
      run_(std::move(run)),
      outputs_(std::make_shared<OutputTypes>()),
      feed_(*package_),
      generation_(fork_generation()),
      process_(static_cast<std::uint64_t>(::getpid())) {
  const auto let_go = [generation = generation_, later = std::make_shared<Later>()](
                          pipeline::Pipeline* ended) { end(ended, generation, *later); };
  running_ = Running(running.release(), let_go);
  outputs_->infos = plan().outputs;
  for (const auto& output : plan().outputs) outputs_->names.push_back(text_object(output.name));
  outputs_->shared.resize(plan().outputs.size());
  look_at_outputs();
  all_pipelines().insert(this);
}

// What holds for a plan goes on after it was replaced, as its frames may still come out.
void Pipeline::look_at_outputs() {
  if (!running_) return;
  const auto plan = running_->shared_plan();
  for (std::size_t i = 0; i < plan->outputs.size(); ++i) {
    if (is_shared(*plan, plan->outputs[i].name)) outputs_->shared[i] = true;
  }
  lend_for_ = std::min({lend_for_, kLongestLoan, slots_of_output(*plan, *running_) / 2});
}

std::string Pipeline::plan_json() const {
  return plan::to_json(running_ ? *running_->shared_plan() : plan());
}

Pipeline::~Pipeline() {
  const nb::error_scope kept;  // The garbage collector may come while an exception is raised.
  all_pipelines().erase(this);
  try {
    shut_down(Clock::now() + kPatience);
  } catch (const std::bad_alloc&) {
    // shut_down() has let it go all the same, and whoever does so last ends it.
  } catch (const std::exception&) {
    discard_exception("the end of a penstock.Pipeline");
  }
  release_dropped();
}

Pipeline::Running Pipeline::running() const {
  check_process();
  if (!running_) raise(make_error(Code::kCancelled, "the pipeline is closed"));
  return running_;
}

void Pipeline::check_process() const {
  if (generation_ != fork_generation()) {
    raise(make_error(Code::kFailedPrecondition, "this pipeline was started by process ", process_,
                     " and this is process ", ::getpid(),
                     ", forked from it: threads do not survive a fork; start the pipeline in the "
                     "child, or use multiprocessing's start method 'spawn'"));
  }
}

std::vector<Tensor> Pipeline::tensors_of(nb::handle feed) const {
  const auto package = package_;
  return feed_.tensors_of(feed, package->plan.inputs);
}

std::uint64_t Pipeline::remember_tag(nb::handle tag) {
  if (tag.is_none()) return 0;
  tags_.emplace(next_tag_, nb::borrow(tag));
  return next_tag_++;
}

nb::object Pipeline::recall_tag(std::uint64_t id) {
  if (id == 0) return nb::none();
  auto node = tags_.extract(id);
  return node.empty() ? nb::object(nb::none()) : std::move(node.mapped());
}

bool Pipeline::give_up(const pipeline::Output& output) {
  note_popped(output.number());
  if (output.number() >= given_up_) return false;
  recall_tag(output.tag());
  return true;
}

bool Pipeline::may_throw_away() const {
  return popped_ < given_up_ && popping_ == 0 && throwing_away_ == 0;
}

void Pipeline::throw_away_given_up(const Running& running) {
  while (may_throw_away()) {
    const auto output = running->try_pop();
    if (!output || !*output) return;
    give_up(**output);
  }
}

bool Pipeline::throw_away_one(const Running& running, std::chrono::nanoseconds timeout) {
  const Counted counted(throwing_away_);
  if (!await_output(*running, timeout)) return false;
  const auto output = running->try_pop();
  if (!output || !*output) return false;
  give_up(**output);
  return true;
}

Result<std::optional<pipeline::Output>> Pipeline::take(const Running& running,
                                                       std::chrono::nanoseconds timeout) {
  auto output = running->try_pop();
  if (!is_late(output) || timeout <= std::chrono::nanoseconds::zero()) return output;
  const auto start = Clock::now();
  do {
    const auto left = timeout == kForever ? kForever : timeout - (Clock::now() - start);
    if (Status there = await_output(*running, left); !there) {
      return with_timeout(std::move(there).error(), timeout);
    }
    output = running->try_pop();
  } while (is_late(output));  // Another thread has taken it.
  return output;
}

pipeline::FrameOptions Pipeline::options_of(const How& how, nb::handle tag) {
  pipeline::FrameOptions options{.stream = how.stream, .in_order = how.in_order};
  if (how.deadline) options.deadline = to_time(*how.deadline);
  if (how.high) options.priority = pipeline::Priority::kHigh;
  if (how.done.is_none()) {
    options.tag = remember_tag(tag);
    return options;
  }
  if (!calls_back_) check_memory_for_thread();  // Python's state of it is made at its first call.
  calls_back_ = true;
  auto made =
      std::make_shared<Callback>(how.done, nb::borrow(tag), outputs_, uncalled_, generation_);
  auto held = std::make_unique<Held>();
  held->more = made;
  options.done = [callback = made.get(), holder = share(std::move(held))](pipeline::Output output) {
    callback->call(std::move(output));
  };
  return options;
}

void Pipeline::note_pushed(std::uint64_t frame, Room room) {
  pushed_ = std::max(pushed_, frame + 1);
  if (!room.empty() && frame >= popped_) {
    room.value() = frame;
    not_popped_.insert(std::move(room));
  }
  pass_over_callbacks();
}

void Pipeline::note_popped(std::uint64_t frame) {
  popped_ = std::max(popped_, frame + 1);
  not_popped_.erase(not_popped_.begin(), not_popped_.lower_bound(popped_));
  pass_over_callbacks();
}

void Pipeline::pass_over_callbacks() {
  while (not_popped_.erase(popped_) > 0) ++popped_;
}

Result<std::uint64_t> Pipeline::push(const std::vector<Tensor>& inputs,
                                     std::chrono::nanoseconds timeout,
                                     pipeline::FrameOptions options) {
  const auto id = options.tag;
  try {
    Room room;  // There may be none once the frame is pushed.
    if (options.done) {
      std::set<std::uint64_t> one{0};
      room = one.extract(one.begin());
    }
    auto frame = push_unnoted(inputs, timeout, std::move(options));
    if (frame) {
      note_pushed(*frame, std::move(room));
    } else {
      recall_tag(id);
    }
    return frame;
  } catch (...) {
    recall_tag(id);
    throw;
  }
}

Result<std::uint64_t> Pipeline::push_unnoted(const std::vector<Tensor>& inputs,
                                             std::chrono::nanoseconds timeout,
                                             pipeline::FrameOptions options) {
  const Running running = this->running();
  throw_away_given_up(running);
  Result<std::uint64_t> frame = running->try_push(inputs, options);
  if (!is_late(frame)) return frame;
  const Counted short_of_room(calls_back_here() ? callbacks_short_of_room_ : short_of_room_);
  if (return_loans()) frame = running->try_push(inputs, options);
  const auto may_wait = [&] {
    return is_late(frame) && timeout > std::chrono::nanoseconds::zero();
  };
  while (may_wait() && may_throw_away()) {  // Room comes as nobody else takes these out.
    if (!throw_away_one(running, timeout)) break;
    frame = running->try_push(inputs, options);
  }
  if (may_wait()) {
    bool signalled = false;
    options.still_wanted = [&] { return !(signalled = signals_raise()); };
    frame = without_gil([&] { return running->push(inputs, timeout, options); });
    if (signalled) throw nb::python_error();
  }
  return frame;
}

std::uint64_t Pipeline::push(nb::handle feed, std::optional<double> timeout, nb::handle tag,
                             std::optional<double> told, const How& how) {
  release_dropped();
  const auto duration = to_duration(timeout);
  const auto inputs = tensors_of(feed);
  auto frame = push(inputs, duration, options_of(how, tag));
  if (frame) return *frame;
  release_dropped();  // The callback.
  raise(told ? with_timeout(std::move(frame).error(), to_duration(told)) : frame.error());
}

std::optional<std::uint64_t> Pipeline::try_push(nb::handle feed, nb::handle tag, const How& how) {
  release_dropped();
  static_cast<void>(running());  // Whether there is one is said before what the inputs lack.
  const auto inputs = tensors_of(feed);
  const auto frame = push(inputs, pipeline::kNoWait, options_of(how, tag));
  if (frame) return *frame;
  release_dropped();  // The callback.
  if (is_late(frame)) return {};
  raise(frame.error());
}

void Pipeline::detach_before(std::uint64_t number) {
  std::erase_if(leases_, [&](const auto& entry) {
    const auto lease = entry.second.lock();
    if (lease && entry.first >= number) return false;
    if (lease) lease->detach();
    return true;
  });
}

bool Pipeline::return_loans() {
  // The pipeline itself gives room for one that is held: here for the callback's own.
  const bool all = callbacks_short_of_room_ > 0;
  const auto held =
      std::ranges::count_if(leases_, [](const auto& entry) { return !entry.second.expired(); });
  if (held < (all ? 1 : 2)) return false;
  detach_before(all ? UINT64_MAX : leases_.back().first);
  return true;
}

nb::object Pipeline::to_frame(pipeline::Output output) {
  nb::object tag = recall_tag(output.tag());
  auto frame = std::make_unique<Frame>(std::move(output), outputs_, std::move(tag), generation_);
  if (frame->number() + 1 > lend_for_) detach_before(frame->number() + 1 - lend_for_);
  if (frame->ok() && lend_for_ == 0) frame->take();
  if (frame->ok() && lend_for_ > 0) leases_.emplace_back(frame->number(), frame->lease());
  // Beside callbacks no later pop() need return them.
  if ((calls_back_ && short_of_room_ > 0) || callbacks_short_of_room_ > 0) return_loans();
  return to_object(std::move(frame));
}

nb::object Pipeline::pop(std::optional<double> timeout) {
  release_dropped();
  const auto duration = to_duration(timeout);
  const Running running = this->running();
  if (throwing_away_ > 0) {
    check(wait_in_slices(duration, [&](std::chrono::nanoseconds slice) -> Status {
      if (throwing_away_ == 0) return {};
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(slice, kBetweenLooks));
      return make_error(Code::kDeadlineExceeded,
                        "pop: another thread's push waits for frames of a "
                        "stream that was closed");
    }));
  }
  const Counted counted(popping_);
  for (;;) {
    auto output = take(running, duration);
    if (!output) raise(output.error());
    if (!*output) return nb::none();
    if (!give_up(**output)) return to_frame(**std::move(output));
  }
}

nb::object Pipeline::try_pop() {
  release_dropped();
  const Running running = this->running();
  while (throwing_away_ == 0) {
    auto output = running->try_pop();
    if (is_late(output)) return nb::none();
    if (!output) raise(output.error());
    if (!*output) return nb::none();
    if (!give_up(**output)) return to_frame(**std::move(output));
  }
  return nb::none();
}

nb::list Pipeline::run(nb::handle feed, std::uint64_t stream) {
  release_dropped();
  if (const auto waiting = in_flight(); waiting > 0) {
    raise(make_error(Code::kFailedPrecondition, "run: expected no frames in flight, found ",
                     waiting, "; use push and pop, or pop them first"));
  }
  try {
    const auto number = value_or_raise(push(tensors_of(feed), kForever, {.stream = stream}));
    this->running()->hurry(number);
    const nb::object object = pop({});
    if (object.is_none()) raise(make_error(Code::kCancelled, "the pipeline is closed"));
    auto& frame = nb::cast<Frame&>(object);
    if (frame.number() != number) {
      raise(make_error(Code::kFailedPrecondition, "run: expected frame ", number, ", found frame ",
                       frame.number(), ": another thread pushes or pops; use one way at a time"));
    }
    return frame.arrays();
  } catch (...) {  // Ctrl-C, no memory: the frame must not be taken for the next one's result.
    give_up_in_flight();
    throw;
  }
}

void Pipeline::run_repeatedly(nb::handle feed, std::uint64_t count) {
  const auto inputs = tensors_of(feed);
  const Running running = this->running();
  check(without_gil([&]() -> Status {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (auto outputs = running->run(inputs); !outputs) return std::move(outputs).error();
    }
    return {};
  }));
  popped_ = pushed_ = pushed_ + count;
}

void Pipeline::set_parameters(nb::handle values, const std::string& stage) {
  release_dropped();
  const Running running = this->running();
  const auto package = package_;
  const auto& parameters = package->plan.parameters;
  pipeline::Named named;
  for (const auto item : nb::borrow<nb::dict>(values).items()) {
    const auto name = text_of(item[0]);
    const auto known = std::ranges::find(parameters, name, &plan::Parameter::name);
    if (known == parameters.end()) {
      raise(not_found(
          "set_parameters: no stage has a parameter '", name, "'; ",
          parameters.empty() ? "there are none: name them by parameters= where the model is split"
                             : "the parameters are ",
          join(parameters, ", ", [](const plan::Parameter& p) { return "'" + p.name + "'"; })));
    }
    auto value = from_python(item[1], {name, known->type});
    if (!value) raise(std::move(value).error().within({Where::kParameter, name}));
    named.emplace_back(name, *std::move(value));
  }
  check(without_gil([&] { return running->set_parameters(stage, named); }));
}

Pipeline::Running Pipeline::without_given_up() {
  release_dropped();
  Running running = this->running();
  // Of a stream that was left: nobody else takes these out.
  while (may_throw_away() && throw_away_one(running, kForever)) continue;
  return running;
}

void Pipeline::reset_states() {
  const Running running = without_given_up();
  check(without_gil([&] { return running->reset_states(); }));
}

void Pipeline::reset_stream(std::uint64_t stream) {
  const Running running = without_given_up();
  check(without_gil([&] { return running->reset_stream(stream); }));
}

void Pipeline::end_stream(std::uint64_t stream) {
  const Running running = without_given_up();
  check(without_gil([&] { return running->end_stream(stream); }));
}

nb::dict Pipeline::save_stream(std::uint64_t stream) {
  const Running running = without_given_up();
  const auto states = value_or_raise(without_gil([&] { return running->save_stream(stream); }));
  nb::dict saved;
  for (const auto& [name, value] : states) {
    saved[text_object(name)] = value_or_raise(to_python(value, make_owner(value.owner()), name));
  }
  return saved;
}

void Pipeline::restore_stream(std::uint64_t stream, nb::handle states) {
  const Running running = without_given_up();
  const auto package = package_;
  const auto& plan = package->plan;
  pipeline::Named named;
  for (const auto item : nb::borrow<nb::dict>(states).items()) {
    auto name = text_of(item[0]);
    if (plan.find_state(name) == nullptr) {  // The library refuses it by name.
      named.emplace_back(std::move(name), Tensor());
      continue;
    }
    auto value = from_python(item[1], *plan.find_tensor(name));
    if (!value) {
      raise(std::move(value).error().within(concat("restore: state '", name, "'")));
    }
    named.emplace_back(std::move(name), *std::move(value));
  }
  check(without_gil([&] { return running->restore_stream(stream, named); }));
}

std::vector<std::string> Pipeline::replace(const std::string& path) {
  release_dropped();
  const auto replaced = std::make_shared<Replaced>();
  auto kept = std::make_shared<Running>(running());
  const auto work = [replaced, path, kept, run = run_](const Abandoned& abandoned) {
    const LetGoUnderGil last(*kept);  // After Ctrl-C it may be the last reference.
    replaced->abandoned = abandoned;
    if (Status status = python::replace(**kept, path, run, *replaced); !status) {
      replaced->error = std::move(status).error();
    }
  };
  // In a callback the library must know that it is one; Ctrl-C is no matter of its thread.
  if (on_library_thread()) {
    without_gil([&] { work([] { return false; }); });
  } else {
    run_aside(work);
  }
  if (replaced->error) raise(*replaced->error);
  package_ = std::make_shared<const plan::Package>(std::move(replaced->package));
  run_.pipeline.label = path;
  calls_back_ = false;
  look_at_outputs();
  return replaced->warnings;
}

bool Pipeline::alive() const {
  return running_ && generation_ == fork_generation() && !running_->closed_by();
}

void Pipeline::close() {
  check_process();
  if (const Running running = running_) without_gil([&] { running->close(); });
}

void Pipeline::drain(std::optional<double> timeout) {
  const Running running = this->running();
  const auto end = pushed_;
  check(wait_in_slices(to_duration(timeout),
                       [&](std::chrono::nanoseconds slice) { return running->drain(slice, end); }));
}

bool Pipeline::cancel_frame(std::uint64_t number) {
  return running()->cancel(number);
}

void Pipeline::cancel() {
  check_process();
  if (const Running running = running_) without_gil([&] { running->cancel(); });
}

void Pipeline::shut_down(std::optional<double> timeout) {
  const auto patience = to_duration(timeout);
  shut_down(patience == kForever ? Clock::time_point::max() : Clock::now() + patience);
}

void Pipeline::shut_down(Clock::time_point deadline) {
  if (!running_) return;
  const Running running = std::exchange(running_, nullptr);
  if (generation_ != fork_generation()) return;
  without_gil([&] { running->cancel(); });  // Wakes those who wait in it.
  if (on_library_thread()) return;          // It may be in one of the calls.
  try {
    while (!without_gil([&] { return running->end(kSlice); })) {
      check_signals();
      if (Clock::now() >= deadline) return leave_behind(*running);
    }
  } catch (nb::python_error&) {
    leave_behind(*running);
    throw;
  }
}

std::uint64_t Pipeline::in_flight() const {
  const auto out = std::max(popped_, given_up_);
  const auto called_back = std::distance(not_popped_.lower_bound(out), not_popped_.end());
  const auto to_pop = pushed_ > out ? pushed_ - out - static_cast<std::uint64_t>(called_back) : 0;
  return to_pop + *uncalled_;
}

bool Pipeline::calls_back_here() const {
  return Callback::runs_here(outputs_.get());
}

void Pipeline::give_up() {
  if (running_) running_->give_up();
}

void Pipeline::hurry_in_flight() {
  if (pushed_ > 0 && alive()) running_->hurry(pushed_ - 1);
}

void Pipeline::give_up_in_flight() {
  given_up_ = std::max(given_up_, pushed_);  // First: what follows may find no memory.
  give_up();
  detach_before(pushed_);  // What is still held has no frame behind it that would free its slot.
}

nb::dict Pipeline::stats() const {
  const Running running = this->running();
  const auto stats = without_gil([&] { return running->stats(); });
  nb::dict dict = stats_dict(stats);
  dict["copies"] = outputs_->copies;
  return dict;
}

std::string Pipeline::report() const {
  const auto report = tune::read_report(*package_);
  return report ? tune::to_json(*report) : std::string();
}

void Pipeline::save(const std::string& target) const {
  const auto saved =
      without_gil([&, package = package_] { return copy_package(*package, target); });
  if (!saved) raise(saved.error());
}

std::uint64_t Pipeline::write_trace(const std::string& file) const {
  const Running running = this->running();
  return value_or_raise(without_gil([&] { return running->write_trace(file); }));
}

int Pipeline::in_flight_limit() const {
  return running()->in_flight_limit();
}

std::optional<std::uint64_t> Pipeline::memory_bytes() const {
  return running()->memory_bytes();
}

void Pipeline::shut_down_all() {
  // Ending one lets the GIL go: others may come and go meanwhile.
  const auto for_each = [](const auto& call) {
    auto& all = all_pipelines();
    for (auto at = all.begin(); at != all.end();) {
      Pipeline* const pipeline = *at;
      call(*pipeline);
      at = all.upper_bound(pipeline);
    }
  };
  for_each([](Pipeline& pipeline) {
    if (!pipeline.running_ || pipeline.generation_ != fork_generation()) return;
    try {
      pipeline.cancel();
    } catch (const std::bad_alloc&) {
      // shut_down() cancels it too.
    }
  });
  auto deadline = Clock::now() + kPatience;  // Of all together.
  for_each([&](Pipeline& pipeline) {
    try {
      pipeline.shut_down(deadline);
    } catch (const std::bad_alloc&) {
      // As in the destructor.
    } catch (const std::exception&) {
      discard_exception("the end of a penstock.Pipeline");
      deadline = Clock::now();  // Ctrl-C: the others wait no longer either.
    }
  });
}

int Pipeline::traverse(visitproc visit, void* arg) const {
  for (const auto& [id, tag] : tags_) Py_VISIT(tag.ptr());
  for (const auto& callable : run_.callables) Py_VISIT(callable.object);
  return 0;
}

}  // namespace penstock::python
