#include "penstock/pipeline/stage_call.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/parker.h"
#include "penstock/pipeline/paused_clock.h"
#include "penstock/pipeline/ports.h"

namespace penstock::pipeline {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): each thread's own
thread_local CallClock* t_clock = nullptr;  // Of the call in progress here, or the last one.

// A view of one item.
Tensor item_of(Tensor& whole, std::int64_t item) {
  const auto& dims = whole.dims();
  const std::size_t bytes = whole.bytes() / static_cast<std::size_t>(dims.front());
  return Tensor::view(
      whole.dtype(), {dims.begin() + 1, dims.end()},
      static_cast<std::byte*>(whole.data()) + static_cast<std::size_t>(item) * bytes);
}
Tensor item_of(const Tensor& whole, std::int64_t item) {
  Tensor same = whole;  // Shares the storage; is read only.
  return item_of(same, item);
}

}  // namespace

PausedClock::PausedClock() : ran_ns_(t_clock == nullptr ? -1 : t_clock->pause(now_ns())) {}

PausedClock::~PausedClock() {
  if (ran_ns_ >= 0) t_clock->resume(now_ns(), ran_ns_);
}

Status StageCall::open(const Executables& executables) {
  asynchronous_ = goes_on_alone(stage_, executables);
  for (std::size_t p = 0; p < executables.size(); ++p) {
    const auto& partition = stage_.partitions[p];
    Part part;
    part.executable = executables[p];
    PENSTOCK_TRY(part.context, executables[p]->create_context());
    part.inputs.resize(partition.inputs.size());
    part.outputs.resize(partition.outputs.size());
    part.input_items.resize(partition.inputs.size());
    part.output_items.resize(partition.outputs.size());
    part.places.resize(partition.outputs.size());
    part.own_inputs.resize(partition.inputs.size());
    part.own_outputs.resize(partition.outputs.size());
    parts_.push_back(std::move(part));
  }
  for (const auto& type : stage_.locals) locals_.push_back(storage_for(type));
  in_slots_.resize(stage_.in_edges.size());
  out_slots_.resize(stage_.out_edges.size());
  if (!stage_.versions.empty()) parameters_ = stage_.versions.front();
  return {};
}

void StageCall::warm_up() {
  if (stage_.may_drop) return;  // A function would count it as a frame.
  // The edges' own first slots, as no frame is there yet.
  for (std::size_t e = 0; e < in_slots_.size(); ++e) {
    in_slots_[e] = &stage_.in_edges[e]->first_slot();
    stage_.in_edges[e]->ensure_own(*in_slots_[e]);
    Edge::point_at(*in_slots_[e], in_slots_[e]->own);
  }
  for (std::size_t e = 0; e < out_slots_.size(); ++e)
    out_slots_[e] = &stage_.out_edges[e]->first_slot();
  warm_up_parts();
  restore_storage();
  for (auto& part : parts_) part.at_start = part.context->counters();
}

void StageCall::warm_up_parts() {
  const bool items = !stage_.plan->each.empty();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    auto& part = parts_[p];
    gather(0, p);
    // Without a bound there is nothing sensible to run on: the first frame warms up instead.
    const auto absent = [](const Tensor* tensor) { return tensor->kind() == Tensor::Kind::kNone; };
    if (std::ranges::any_of(part.inputs, absent) || (items && !has_items(p))) return;
    if (items) view_item(p, 0);
    // Zeros may be no fair input (an index out of range, a division): then it did not warm up.
    if (!part.context->run({}, part.inputs, part.outputs) ||
        !part.context->wait(backend::kNoDeadline))
      return;
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

void StageCall::bind(FrameNumber frame) {
  for (std::size_t e = 0; e < out_slots_.size(); ++e)
    out_slots_[e] = &stage_.out_edges[e]->slot(frame);
  for (std::size_t e = 0; e < in_slots_.size(); ++e)
    in_slots_[e] = &stage_.in_edges[e]->slot(frame);
}

void StageCall::gather(FrameNumber frame, std::size_t p) {
  auto& part = parts_[p];
  const auto& partition = stage_.partitions[p];
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    const Wire& wire = partition.inputs[i];
    switch (wire.kind) {
      case Wire::Kind::kInEdge:
        part.inputs[i] = in_slots_[wire.where]->now[wire.tensor];
        break;
      case Wire::Kind::kOutEdge:
        part.inputs[i] = &out_slots_[wire.where]->own[wire.tensor];
        break;
      case Wire::Kind::kLocal:
        part.inputs[i] = &locals_[wire.where];
        break;
      case Wire::Kind::kParameter:
        advance_parameters(frame);
        part.inputs[i] = &parameters_->values[wire.where];
        break;
      case Wire::Kind::kStateIn:
        part.inputs[i] = &stage_.states_in[wire.where]->before(frame);
        break;
      case Wire::Kind::kStateOut:
        part.inputs[i] = &stage_.states_out[wire.where]->next();
        break;
    }
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    const Wire& wire = partition.outputs[i].wire;
    Tensor& output = target_of(wire);
    if (wire.fresh) output = Tensor();
    part.outputs[i] = &output;
  }
}

Tensor& StageCall::target_of(const Wire& wire) {
  switch (wire.kind) {
    case Wire::Kind::kLocal:
      return locals_[wire.where];
    case Wire::Kind::kStateOut:
      return stage_.states_out[wire.where]->next();
    default:
      return out_slots_[wire.where]->own[wire.tensor];
  }
}

// A call that failed may have left something else where the next frame is to be written.
void StageCall::restore_storage() {
  for (const auto& partition : stage_.partitions) {
    for (const auto& target : partition.outputs) {
      if (!target.wire.fresh) restore_storage_for(target.storage, target_of(target.wire));
    }
  }
}

Status StageCall::start(FrameNumber frame, std::int64_t deadline_ns, bool sample) {
  t_clock = &clock_;
  began_ns_ = 0;
  Status ran = guarded([&]() -> Status {
    if (stage_.plan->each.empty()) return run_parts(frame, deadline_ns, sample);
    if (sample) began_ns_ = now_ns();
    return run_items(frame);
  });
  return ran ? std::move(ran) : restored(std::move(ran));
}

Status StageCall::finish(std::int64_t until_ns) {
  if (!in_progress_) return {};
  auto& part = parts_.back();
  Status ended = guarded([&]() -> Status { return part.context->wait(until_ns); });
  if (!ended && ended.error().code == Code::kDeadlineExceeded) return ended;
  in_progress_ = false;
  attach(part);
  if (ended) {
    ended =
        guarded([&]() -> Status { return check_outputs(stage_.partitions.back(), part.outputs); });
  }
  return ended ? std::move(ended) : restored(std::move(ended));
}

// Runs the parts one after the other; of an asynchronous backend, the last one goes on by itself.
Status StageCall::run_parts(FrameNumber frame, std::int64_t deadline_ns, bool sample) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    // A call that came back after all may have lost its frame meanwhile: nothing more is touched.
    if (p > 0 && clock_.abandoned()) return make_error(Code::kCancelled, "abandoned");
    gather(frame, p);
    if (sample && p == 0) began_ns_ = now_ns();
    auto& part = parts_[p];
    backend::Call call{.frame = frame, .deadline_ns = deadline_ns};
    if (asynchronous_) {
      detach(part);
      done_.store(false, std::memory_order_relaxed);
      call.done = tell_done;
      call.whom = this;
    }
    PENSTOCK_CHECK_OK(part.context->run(call, part.inputs, part.outputs));
    if (asynchronous_) {
      in_progress_ = true;
      return {};
    }
    PENSTOCK_CHECK_OK(part.context->wait(backend::kNoDeadline));
    PENSTOCK_CHECK_OK(check_outputs(stage_.partitions[p], part.outputs));
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

void StageCall::detach(Part& part) {
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    part.own_inputs[i] = *part.inputs[i];
    part.inputs[i] = &part.own_inputs[i];
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    part.own_outputs[i] = *part.outputs[i];
    part.outputs[i] = &part.own_outputs[i];
  }
}

void StageCall::attach(Part& part) {
  for (auto& input : part.own_inputs) input.release();
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    Tensor& target = target_of(stage_.partitions.back().outputs[i].wire);
    target = part.own_outputs[i];
    part.own_outputs[i].release();
    part.outputs[i] = &target;
  }
}

void StageCall::abandon() {
  cancel();
  for (const auto& target : stage_.partitions.back().outputs) {
    target_of(target.wire) = target.wire.fresh ? Tensor() : storage_for(target.storage);
  }
}

// The slots are others' now: what the call has computed goes nowhere.
bool StageCall::in_progress_still() {
  if (!in_progress_) return false;
  const Status ended = guarded([&]() -> Status { return parts_.back().context->wait(0); });
  in_progress_ = !ended && ended.error().code == Code::kDeadlineExceeded;
  return in_progress_;
}

Status StageCall::restored(Status failed) {
  if (clock_.abandoned()) return failed;
  Status whole = guarded([&]() -> Status {
    restore_storage();
    return {};
  });
  return whole ? std::move(failed) : std::move(whole);
}

// Gathers what every item has in common, and gives the outputs their number of items.
Result<std::int64_t> StageCall::count_items(FrameNumber frame) {
  std::optional<std::int64_t> count;
  std::string first;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    gather(frame, p);
    const auto& partition = stage_.partitions[p];
    for (std::size_t i = 0; i < partition.inputs.size(); ++i) {
      const Wire& wire = partition.inputs[i];
      if (!wire.items || wire.kind == Wire::Kind::kOutEdge || wire.kind == Wire::Kind::kStateOut)
        continue;
      const auto& name = partition.plan->inputs[std::min(i, partition.plan->inputs.size() - 1)];
      const auto& dims = parts_[p].inputs[i]->dims();
      if (dims.empty()) {
        return invalid_argument("'", name, "' is one value: expected a list of items");
      }
      const auto items = dims.front();
      if (!count) first = name;
      if (count.value_or(items) != items) {
        return invalid_argument("'", first, "' holds ", *count, " items, '", name, "' holds ",
                                items, ": expected as many");
      }
      count = items;
    }
  }
  const auto items = count.value_or(0);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    for (std::size_t i = 0; i < parts_[p].outputs.size(); ++i) {
      if (!stage_.partitions[p].outputs[i].wire.items) continue;
      Tensor& whole = *parts_[p].outputs[i];
      auto dims = whole.dims();
      if (!dims.empty()) dims.front() = items;
      if (!dims.empty() && whole.set_dims(dims)) continue;
      return make_error(Code::kOutOfRange, items, " items: an output has no room for them");
    }
  }
  return items;
}

// Of the lists that are gathered, one item each.
void StageCall::view_item(std::size_t p, std::int64_t item) {
  auto& part = parts_[p];
  const auto& partition = stage_.partitions[p];
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    if (!partition.inputs[i].items) continue;
    part.input_items[i] = item_of(*part.inputs[i], item);
    part.inputs[i] = &part.input_items[i];
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    if (!partition.outputs[i].wire.items) continue;
    part.output_items[i] = item_of(*part.outputs[i], item);
    part.outputs[i] = &part.output_items[i];
    part.places[i] = part.outputs[i]->data();
  }
}

Status StageCall::run_item(FrameNumber frame, std::int64_t item) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (p > 0 && clock_.abandoned()) return make_error(Code::kCancelled, "abandoned");
    gather(frame, p);
    view_item(p, item);
    auto& part = parts_[p];
    const auto& partition = stage_.partitions[p];
    PENSTOCK_CHECK_OK(part.context->run({}, part.inputs, part.outputs));
    PENSTOCK_CHECK_OK(part.context->wait(backend::kNoDeadline));
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      PENSTOCK_CHECK_OK(check_output(partition, i, *part.outputs[i]));
      if (!partition.outputs[i].wire.items) continue;
      PENSTOCK_CHECK_OK(put_in_place(partition.outputs[i], *part.outputs[i], part.places[i]));
    }
  }
  return {};
}

// An item has its place in the list, as large as the others': it is copied there if it lies
// elsewhere.
Status StageCall::put_in_place(const Target& target, const Tensor& item, void* place) {
  const Tensor& whole = target_of(target.wire);
  if (!std::ranges::equal(std::span(whole.dims()).subspan(1), item.dims())) {
    return make_error(Code::kOutOfRange, "output '", target.name, "' is ", item.type(),
                      ", where each item has its place in ", whole.type(),
                      "; items must be of one shape");
  }
  if (item.data() == place || item.bytes() == 0) return {};
  std::memcpy(place, item.data(), item.bytes());
  copies_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

// Scatter: one call for each item, in order, each writing its own place of the outputs.
Status StageCall::run_items(FrameNumber frame) {
  PENSTOCK_TRY(const auto items, count_items(frame));
  for (std::int64_t item = 0; item < items; ++item) {
    if (clock_.abandoned() || ending_.cancelled()) {
      return ending_.error();
    }
    Status ran = run_item(frame, item);
    if (!ran) return std::move(ran).error().within({Where::kItem, item});
  }
  return {};
}

// The frame is computed: what it wrote is the next one's state.
Status StageCall::advance_states() {
  for (std::size_t s = 0; s < stage_.states_out.size(); ++s) {
    const auto& source = stage_.state_sources[s];
    if (!source) continue;
    const Tensor& value = source->kind == Wire::Kind::kStateOut
                              ? stage_.states_out[source->where]->next()
                              : out_slots_[source->where]->own[source->tensor];
    if (stage_.states_out[s]->take(value)) copies_.fetch_add(1, std::memory_order_relaxed);
  }
  for (StateEdge* state : stage_.states_out) state->advance();
  return {};
}

void StageCall::advance_parameters(FrameNumber frame) {
  if (stage_.newest_version.load(std::memory_order_acquire) == parameters_->number) return;
  const std::scoped_lock lock(stage_.parameter_mutex);
  const auto later = std::ranges::find_if(
      stage_.versions, [&](const auto& version) { return version->first_frame > frame; });
  parameters_ = *std::prev(later);
}

void StageCall::cancel() {
  for (auto& part : parts_) {
    if (part.context) part.context->cancel();
  }
}

backend::Context::Counters StageCall::counters() const {
  backend::Context::Counters sum;
  for (const auto& part : parts_) {
    const auto now = part.context->counters();
    sum.copies += now.copies - part.at_start.copies;
    sum.allocations += now.allocations - part.at_start.allocations;
  }
  sum.copies += copies_.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace penstock::pipeline
