// Binds frames' tensors, and runs the models for all frames together, each alone, or per item.
#include "penstock/pipeline/stage_call.h"

#include <algorithm>

#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/parker.h"
#include "penstock/pipeline/paused_clock.h"
#include "penstock/pipeline/ports.h"

// Functions that are `inline` here are on every frame's way, and no other file calls them.
namespace penstock::pipeline {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): each thread's own
thread_local CallClock* t_clock = nullptr;  // Of the call in progress here, or the last one.

}  // namespace

PausedClock::PausedClock() : ran_ns_(t_clock == nullptr ? -1 : t_clock->pause(now_ns())) {}

PausedClock::~PausedClock() {
  if (ran_ns_ >= 0) t_clock->resume(now_ns(), ran_ns_);
}

Status StageCall::open(const Executables& executables) {
  t_clock = &clock_;
  asynchronous_ = goes_on_alone(stage_, executables);
  stateful_ = !stage_.states_in.empty() || !stage_.states_out.empty();
  const std::size_t count = stage_.partitions.size();
  const std::span all(executables);
  for (std::size_t p = 0; p < count; ++p) PENSTOCK_CHECK_OK(open_part(p, executables[p]));
  for (const auto& type : stage_.locals) {
    Tensor& local = locals_.emplace_back();
    if (type.max_bytes()) PENSTOCK_CHECK_OK(restore_storage_in(local_memory(), type, local));
  }
  std::size_t most = 1;
  for (const int rows : stage_.batch_sizes) {
    auto& made = batched_.emplace_back(std::make_unique<BatchedCall>(stage_, local_memory(), rows));
    PENSTOCK_CHECK_OK(made->open(all.first(count), all.subspan(batched_.size() * count, count)));
    most = made->rows();
  }
  find_mirrors();
  while (bound_.size() < most) bound_.push_back(room_for_frame());
  statuses_.resize(most);
  parameters_in_ = stage_.parameters_in(memory_);
  if (!stage_.versions.empty()) take_parameters(stage_.versions.front());
  return {};
}

Status StageCall::open_part(std::size_t p, const std::shared_ptr<backend::Executable>& executable) {
  const auto& partition = stage_.partitions[p];
  Part part;
  part.executable = executable;
  PENSTOCK_TRY(part.context, executable->create_context());
  part.inputs.resize(partition.inputs.size());
  part.outputs.resize(partition.outputs.size());
  part.input_items.resize(partition.inputs.size());
  part.output_items.resize(partition.outputs.size());
  part.places.resize(partition.outputs.size());
  parts_.push_back(std::move(part));
  return {};
}

BoundFrame StageCall::room_for_frame() const {
  BoundFrame made;
  made.in.resize(stage_.in_edges.size());
  made.out.resize(stage_.out_edges.size());
  made.in_slots.resize(stage_.in_edges.size());
  made.out_slots.resize(stage_.out_edges.size());
  made.state_in.resize(stage_.states_in.size());
  made.state_out.resize(stage_.states_out.size());
  auto& copies = made.copies;
  for (const Edge* edge : stage_.in_edges) {
    auto& tensors = copies.in.emplace_back(edge->tensors.size());
    auto& now = copies.now.emplace_back();
    for (const auto& tensor : tensors) now.push_back(&tensor);
  }
  for (const Edge* edge : stage_.out_edges) copies.out.emplace_back(edge->tensors.size());
  copies.state_in.resize(stage_.states_in.size());
  copies.state_out.resize(stage_.states_out.size());
  return made;
}

Status StageCall::warm_up(WarmUp& warm_up) {
  if (stage_.may_drop) return {};  // A function would count it as a frame.
  // The edges' own first slots, as no frame is there yet.
  at_ = &bound_.front();
  at_->frame = Mirror::kNoFrame;
  for (std::size_t e = 0; e < at_->in.size(); ++e) {
    Slot& slot = stage_.in_edges[e]->first_slot();
    at_->in_slots[e] = &slot;
    at_->in[e] = &slot.now;
    if (stage_.in_edges[e]->memory() != nullptr) continue;  // As its writer has left it.
    stage_.in_edges[e]->ensure_own(slot);
    Edge::point_at(slot, slot.own);
  }
  for (std::size_t e = 0; e < at_->out.size(); ++e) {
    at_->out_slots[e] = &stage_.out_edges[e]->first_slot();
    at_->out[e] = &at_->out_slots[e]->own;
  }
  bind_states(*at_);
  if (moves_) {
    bind_mirrors(*at_);
    PENSTOCK_CHECK_OK(bring_inputs(*at_));
  }
  warm_up_parts(warm_up);
  PENSTOCK_CHECK_OK(restore_storage());
  copies_ = 0;
  for (auto& part : parts_) part.at_start = part.context->counters();
  for (auto& batched : batched_) batched->warm_up(warm_up, values_);
  return {};
}

void StageCall::warm_up_parts(WarmUp& warm_up) {
  const bool items = !stage_.plan->each.empty();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    auto& part = parts_[p];
    gather(p);
    // Without a bound there is nothing sensible to run on: the first frame warms up instead.
    const auto absent = [](const Tensor* tensor) { return tensor->kind() == Tensor::Kind::kNone; };
    if (std::ranges::any_of(part.inputs, absent) || (items && !has_items(p))) return;
    if (items) view_item(p, 0);
    if (!warm_up.run(*part.context,
                     [&] { return part.context->run({}, part.inputs, part.outputs); })) {
      return;
    }
  }
}

// Whether every list that a call takes apart holds something.
bool StageCall::has_items(std::size_t p) const {
  const auto& partition = stage_.partitions[p];
  const auto& part = parts_[p];
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    if (partition.inputs[i].items && part.inputs[i]->bytes() == 0) return false;
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    if (partition.outputs[i].wire.items && part.outputs[i]->bytes() == 0) return false;
  }
  return true;
}

Status StageCall::bind(FrameNumber frame, const Record& record, const Edge* again) {
  auto& bound = bound_[count_];
  bound.apart = false;
  bound.frame = frame;
  bound.record = &record;
  bound.deadline_ns = record.deadline_ns;
  bound.seat = record.seat;
  bound.step = record.step;
  if (bound.traceparent != record.traceparent) {
    PENSTOCK_CHECK_OK(guarded([&]() -> Status {
      bound.traceparent = record.traceparent;
      return {};
    }));
  }
  bool left = false;  // By a call that hangs: storage that is to be written.
  auto* out = bound.out.data();
  auto* out_slot = bound.out_slots.data();
  if (again != nullptr) PENSTOCK_CHECK_OK(guarded([&] { return bind_beside(bound, *again); }));
  for (Edge* edge : stage_.out_edges) {
    if (again != nullptr && edge != again) {
      ++out_slot, ++out;
      continue;
    }
    Slot& slot = edge->slot(frame);
    left = left || slot.left.load(std::memory_order_relaxed);
    *out_slot++ = &slot;
    *out++ = &slot.own;
  }
  auto* in = bound.in.data();
  auto* in_slot = bound.in_slots.data();
  for (Edge* edge : stage_.in_edges) {
    Slot& slot = edge->slot(frame);
    *in_slot++ = &slot;
    *in++ = &slot.now;
  }
  for (const StateEdge* state : stage_.states_out) {
    left = left || state->is_left(bound.seat, bound.step);
  }
  if (left) PENSTOCK_CHECK_OK(guarded([&] { return renew(bound); }));
  if (stateful_) bind_states(bound);
  if (moves_) bind_mirrors(bound);
  ++count_;
  return {};
}

Status StageCall::bind_beside(BoundFrame& bound, const Edge& again) {
  bound.beside.resize(stage_.out_edges.size());
  for (std::size_t e = 0; e < stage_.out_edges.size(); ++e) {
    const Edge& edge = *stage_.out_edges[e];
    if (&edge == &again) continue;
    auto* const memory = writes_[e] == Edge::kOwn ? edge.memory() : memory_;
    bound.out_slots[e] = nullptr;
    bound.out[e] = &bound.beside[e];
    bound.beside[e].clear();
    for (const auto& type : edge.types) {
      Tensor& made = bound.beside[e].emplace_back();
      if (type.max_bytes()) PENSTOCK_CHECK_OK(restore_storage_in(memory, type, made));
    }
  }
  return {};
}

void StageCall::forget_beside() {
  bound_.front().beside.clear();  // Such a frame is alone in its call.
}

Edge* StageCall::lost_input(std::size_t i) {
  const auto& bound = bound_[i];
  for (std::size_t e = 0; e < stage_.in_edges.size(); ++e) {
    Edge& edge = *stage_.in_edges[e];
    if (edge.may_lose() && edge.is_lost(*bound.in_slots[e], reads_[e], bound.frame)) return &edge;
  }
  return nullptr;
}

Status StageCall::renew(const BoundFrame& bound) {
  for (std::size_t e = 0; e < bound.out_slots.size(); ++e) {
    if (bound.out_slots[e] == nullptr) continue;
    PENSTOCK_CHECK_OK(stage_.out_edges[e]->renew(*bound.out_slots[e]));
  }
  for (StateEdge* state : stage_.states_out) {
    PENSTOCK_CHECK_OK(state->renew(bound.seat, bound.step));
  }
  return {};
}

void StageCall::bind_states(BoundFrame& bound) {
  for (std::size_t s = 0; s < bound.state_in.size(); ++s) {
    bound.state_in[s] = &stage_.states_in[s]->now(bound.seat, bound.step);
  }
  for (std::size_t s = 0; s < bound.state_out.size(); ++s) {
    bound.state_out[s] = &stage_.states_out[s]->next(bound.seat, bound.step);
  }
}

void StageCall::find_mirrors() {
  for (const Edge* edge : stage_.in_edges) reads_.push_back(edge->mirror_in(memory_));
  for (const Edge* edge : stage_.out_edges) writes_.push_back(edge->mirror_in(memory_));
  const auto in_mirror = [](std::size_t mirror) { return mirror != Edge::kOwn; };
  moves_ = std::ranges::any_of(reads_, in_mirror) || std::ranges::any_of(writes_, in_mirror);
}

void StageCall::bind_mirrors(BoundFrame& bound) {
  for (std::size_t e = 0; e < reads_.size(); ++e) {
    if (reads_[e] != Edge::kOwn) bound.in[e] = &bound.in_slots[e]->mirrors[reads_[e]]->now;
  }
  for (std::size_t e = 0; e < writes_.size(); ++e) {
    if (writes_[e] != Edge::kOwn && bound.out_slots[e] != nullptr)
      bound.out[e] = &bound.out_slots[e]->mirrors[writes_[e]]->own;
  }
}

// To where the frame is read.
Status StageCall::bring_inputs(const BoundFrame& bound) {
  const std::int64_t began = now_ns();
  std::uint64_t copies = 0;
  Status brought;
  for (std::size_t e = 0; e < reads_.size() && brought; ++e) {
    if (reads_[e] == Edge::kOwn) continue;
    brought = stage_.in_edges[e]->bring(*bound.in_slots[e], reads_[e], bound.frame, copies);
  }
  copies_.fetch_add(copies, std::memory_order_relaxed);
  transfer_ns_ += now_ns() - began;
  return brought;
}

// From where frame at_ was written to where all may read it.
Status StageCall::bring_outputs() {
  const std::int64_t began = now_ns();
  std::uint64_t copies = 0;
  Status brought;
  for (std::size_t e = 0; e < writes_.size() && brought; ++e) {
    if (writes_[e] == Edge::kOwn || at_->out_slots[e] == nullptr) continue;
    brought = stage_.out_edges[e]->bring_back(*at_->out_slots[e], writes_[e], at_->frame, copies);
  }
  copies_.fetch_add(copies, std::memory_order_relaxed);
  transfer_ns_ += now_ns() - began;
  return brought;
}

inline Status StageCall::check_results(std::size_t p) const {
  const auto& partition = stage_.partitions[p];
  const auto* output = parts_[p].outputs.data();
  for (const Target& target : partition.outputs) {
    const Tensor& value = **output++;
    if (!fits(target.type, value)) {
      const auto at = static_cast<std::size_t>(&target - partition.outputs.data());
      return check_output(partition, at, target.type, value);
    }
    if (memory_ == nullptr || !value.in_host_memory()) continue;
    const auto at = static_cast<std::size_t>(&target - partition.outputs.data());
    PENSTOCK_CHECK_OK(check_place(partition, at, memory_, value));
  }
  return {};
}

void StageCall::note_begin() {
  began_ns_ = now_ns();
  transfer_before_ns_ = transfer_ns_;
}

void StageCall::gather(std::size_t p) {
  auto& part = parts_[p];
  const auto& partition = stage_.partitions[p];
  auto* input = part.inputs.data();
  for (const Wire& wire : partition.inputs) *input++ = input_of(wire);
  auto* output = part.outputs.data();
  for (const Target& target : partition.outputs) {
    Tensor& written = target_of(target.wire);
    if (target.wire.fresh) written = Tensor();
    *output++ = &written;
  }
}

const Tensor* StageCall::input_of(const Wire& wire) {
  switch (wire.kind) {
    case Wire::Kind::kInEdge:
      return (*at_->in[wire.where])[wire.tensor];
    case Wire::Kind::kParameter:
      advance_parameters(at_->frame);
      return &(*values_)[wire.where];
    case Wire::Kind::kStateIn:
      return at_->state_in[wire.where];
    case Wire::Kind::kStateOut:
      return at_->state_out[wire.where];
    default:
      return &target_of(wire);
  }
}

Tensor& StageCall::target_of(const Wire& wire) {
  switch (wire.kind) {
    case Wire::Kind::kLocal:
      return locals_[wire.where];
    case Wire::Kind::kStateOut:
      return *at_->state_out[wire.where];
    default:
      return (*at_->out[wire.where])[wire.tensor];
  }
}

backend::Memory* StageCall::memory_of(const Wire& wire) const {
  switch (wire.kind) {
    case Wire::Kind::kLocal:
      return local_memory();
    case Wire::Kind::kStateOut:
      return stage_.states_out[wire.where]->memory();
    default:
      return writes_[wire.where] == Edge::kOwn ? stage_.out_edges[wire.where]->memory() : memory_;
  }
}

// A call that failed may have left something else where the next frame is to be written.
Status StageCall::restore_storage() {
  for (const auto& partition : stage_.partitions) {
    for (const auto& target : partition.outputs) {
      if (target.wire.fresh) continue;
      PENSTOCK_CHECK_OK(
          restore_storage_in(memory_of(target.wire), target.storage, target_of(target.wire)));
    }
  }
  return {};
}

bool StageCall::start(std::int64_t now_ns, bool sample) {
  if (asynchronous_) t_clock = &clock_;  // Else the thread has this call alone.
  sample_ = sample;
  began_ns_ = transfer_ns_ = transfer_before_ns_ = 0;
  together_ = nullptr;
  idle_rows_of_items_ = 0;
  alone_ = 0;
  begin_clock(now_ns);  // From here on another thread may ask what is settled().
  count_ > 1 ? start_together() : start_alone();
  return in_progress_ || !clock_.abandoned();
}

bool StageCall::finish(std::int64_t until_ns) {
  while (in_progress_) {
    Status ended = wait_for_context(until_ns);
    if (in_progress_) return false;
    if (together_ != nullptr) {
      end_together(std::move(ended));
      continue;
    }
    end_alone(std::move(ended));
    ++alone_;
    start_alone();
  }
  return true;
}

backend::Context& StageCall::context_in_progress() {
  return together_ != nullptr ? together_->context(0) : *parts_.back().context;
}

backend::FarTimes StageCall::far_times() const {
  if (together_ != nullptr) return together_->context(parts_.size() - 1).far_times();
  return count_ == 1 ? parts_.back().context->far_times() : backend::FarTimes{};
}

void StageCall::cancel_run() {
  context_in_progress().cancel();
}

// The frame is another thread's.
Error StageCall::abandoned() {
  return make_error(Code::kCancelled, "abandoned");
}

// What start() began, or what follows it.
Status StageCall::wait_for_context(std::int64_t until_ns) {
  Status ended = guarded([&]() -> Status { return context_in_progress().wait(until_ns); });
  in_progress_ = !ended && ended.error().code == Code::kDeadlineExceeded;
  return ended;
}

void StageCall::start_together() {
  together_ = &smallest_for(count_);
  Status ran = guarded([&]() -> Status { return run_together(); });
  if (!in_progress_) end_together(std::move(ran));
}

Status StageCall::run_together() {
  if (parameters_) advance_parameters(bound_.front().frame);
  together_->bind(std::span(bound_).first(count_));
  auto call = call_of(bound_.front());
  for (std::size_t i = 1; i < count_; ++i) {
    call.deadline_ns = std::min(call.deadline_ns, bound_[i].deadline_ns);
  }
  for (std::size_t i = 0; i < count_ && moves_; ++i) PENSTOCK_CHECK_OK(bring_inputs(bound_[i]));
  if (asynchronous_ || may_be_left_) {
    if (!set_apart(std::span(bound_).first(count_))) return abandoned();
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (clock_.abandoned()) return abandoned();
    if (sample_ && p == 0) note_begin();
    PENSTOCK_CHECK_OK(together_->run(p, call, values_));
    if (asynchronous_) {
      in_progress_ = true;
      return {};
    }
    PENSTOCK_CHECK_OK(together_->context(p).wait(backend::kNoDeadline));
    PENSTOCK_CHECK_OK(together_->share_out(p));
  }
  return {};
}

// Where the call failed, each frame runs alone, so that only the guilty one fails.
void StageCall::end_together(Status ended) {
  if (ended && asynchronous_) ended = guarded([&] { return together_->share_out(0); });
  if (ended) {
    if (!clock_.end()) return;
    for (std::size_t i = 0; i < count_; ++i) {
      attach(bound_[i]);
      statuses_[i] = Status();
    }
    if (moves_) bring_all_outputs();
    return;
  }
  if (clock_.abandoned()) return;
  together_->restore();
  together_ = nullptr;
  start_alone();
}

// Of a call that has ended. Where a copy fails, its frame does.
void StageCall::bring_all_outputs() {
  clock_.begin(now_ns());
  for (std::size_t i = 0; i < count_; ++i) {
    at_ = &bound_[i];
    statuses_[i] = guarded([&]() -> Status { return bring_outputs(); });
    if (clock_.abandoned()) return;
    if (!statuses_[i]) statuses_[i] = restored(std::move(statuses_[i]));
  }
  static_cast<void>(clock_.end());
}

BatchedCall& StageCall::smallest_for(std::size_t frames) {
  return **std::ranges::find_if(batched_,
                                [&](const auto& batched) { return batched->rows() >= frames; });
}

Status StageCall::check_wanted() const {
  if (clock_.abandoned()) return abandoned();
  if (ending_.cancelled()) return ending_.error();
  if (!stage_.feeds_state && at_->record->cancelled()) {
    return make_error(Code::kCancelled, "its frame was cancelled");
  }
  if (at_->deadline_ns != backend::kNoDeadline && now_ns() > at_->deadline_ns) {
    return make_error(Code::kCancelled, "its deadline has passed");
  }
  return {};
}

// The frames from `alone_` on, until one of them goes on by itself.
inline void StageCall::start_alone() {
  for (; alone_ < count_; ++alone_) {
    if (count_ > 1 && !restart_clock()) return;
    at_ = &bound_[alone_];
    statuses_[alone_] = guarded([&]() -> Status {
      if (count_ > 1) PENSTOCK_CHECK_OK(check_wanted());
      if (moves_) PENSTOCK_CHECK_OK(bring_inputs(*at_));
      if ((asynchronous_ || may_be_left_) && !set_apart({at_, 1})) return abandoned();
      return stage_.plan->each.empty() ? run_parts() : run_items();
    });
    if (in_progress_ || !settle()) return;
  }
}

void StageCall::end_alone(Status ended) {
  if (ended) ended = guarded([&]() -> Status { return check_results(parts_.size() - 1); });
  statuses_[alone_] = std::move(ended);
  static_cast<void>(settle());  // Nobody else abandons it.
}

// The frame was computed, or failed: from here on the slots are the call's again. False: it was
// abandoned before.
inline bool StageCall::settle() {
  if (!clock_.end()) return false;
  Status& status = statuses_[alone_];
  if (at_->apart) attach(*at_);
  if (status && moves_) {
    clock_.begin(now_ns());
    status = guarded([&]() -> Status { return bring_outputs(); });
    if (!clock_.end()) return false;
  }
  if (!status) status = restored(std::move(status));
  return true;
}

// A call that may be left behind has not begun before it stands apart: a thread that gets no CPU
// until then would end the pipeline. What is brought from another memory may hang before.
inline void StageCall::begin_clock(std::int64_t now_ns) {
  if (moves_ || !may_be_left_) clock_.begin(now_ns);
}

// For a frame behind others of the same call. False: the call was abandoned.
bool StageCall::restart_clock() {
  if (!clock_.end()) return false;
  begin_clock(now_ns());
  return true;
}

backend::Call StageCall::call_of(const BoundFrame& frame) {
  backend::Call call{
      .frame = frame.frame, .deadline_ns = frame.deadline_ns, .traceparent = frame.traceparent};
  if (!asynchronous_) return call;
  done_.store(false, std::memory_order_relaxed);
  call.done = tell_done;
  call.whom = this;
  return call;
}

// Runs the parts one after the other; of an asynchronous backend, the last one goes on by itself.
inline Status StageCall::run_parts() {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    // A call that came back after all may have lost its frame meanwhile: nothing more is touched.
    if (clock_.abandoned()) return abandoned();
    gather(p);
    if (sample_ && p == 0 && began_ns_ == 0) note_begin();
    auto& part = parts_[p];
    PENSTOCK_CHECK_OK(part.context->run(call_of(*at_), part.inputs, part.outputs));
    if (asynchronous_) {
      in_progress_ = true;
      return {};
    }
    PENSTOCK_CHECK_OK(part.context->wait(backend::kNoDeadline));
    PENSTOCK_CHECK_OK(check_results(p));
  }
  return {};
}

void StageCall::tell_done(void* self) {
  auto& call = *static_cast<StageCall*>(self);
  Parker& parker = call.parker_;
  // From here on the worker may use the call for another frame.
  call.done_.store(true, std::memory_order_seq_cst);
  parker.wake();
}

// The slots are others' now: what the call has computed goes nowhere.
bool StageCall::in_progress_still() {
  if (in_progress_) static_cast<void>(wait_for_context(0));
  return in_progress_ || (clock_.abandoned() && !came_back_.load(std::memory_order_acquire));
}

Status StageCall::restored(Status failed) {
  Status whole = guarded([&]() -> Status { return restore_storage(); });
  return whole ? std::move(failed) : std::move(whole);
}

Status StageCall::take_states(std::size_t i) {
  const BoundFrame& bound = bound_[i];  // A call that hangs may have another one in hand.
  std::uint64_t copies = 0;
  for (std::size_t s = 0; s < stage_.states_out.size(); ++s) {
    const auto& source = stage_.state_sources[s];
    if (!source) continue;
    const Tensor& value = source->kind == Wire::Kind::kStateOut
                              ? *bound.state_out[source->where]
                              : (*bound.out[source->where])[source->tensor];
    PENSTOCK_CHECK_OK(stage_.states_out[s]->take(bound.seat, bound.step, value, within_, copies));
  }
  copies_.fetch_add(copies, std::memory_order_relaxed);
  return {};
}

void StageCall::advance_parameters(FrameNumber frame) {
  // A frame that another instance lost may be older than what this one computed last.
  const bool newest = stage_.newest_version.load(std::memory_order_acquire) == parameters_->number;
  if (newest && parameters_->first_frame <= frame) return;
  const std::scoped_lock lock(stage_.parameter_mutex);
  const auto later = std::ranges::find_if(
      stage_.versions, [&](const auto& version) { return version->first_frame > frame; });
  take_parameters(*std::prev(later));
}

void StageCall::take_parameters(std::shared_ptr<const ParameterVersion> version) {
  parameters_ = std::move(version);
  values_ = &parameters_->in(parameters_in_);
}

void StageCall::cancel() {
  for (auto& part : parts_) {
    if (part.context) part.context->cancel();
  }
  for (auto& batched : batched_) batched->cancel();
}

Counters StageCall::counters() const {
  Counters sum;
  for (const auto& part : parts_) add_since(sum, part.at_start, *part.context);
  for (const auto& batched : batched_) add(sum, batched->counters());
  sum.copies += copies_.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace penstock::pipeline
