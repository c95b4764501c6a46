#include "penstock/pipeline/worker.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <optional>

#include "penstock/device/affinity.h"
#include "penstock/pipeline/paused_clock.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/thread.h"

namespace penstock::pipeline {
namespace {

std::string text_of(const std::vector<int>& cpus) {
  return "cpu:" + join(cpus, "+", [](int cpu) { return std::to_string(cpu); });
}

std::optional<Wire> find_wire(const std::vector<Edge*>& edges, Wire::Kind kind,
                              const std::string& name) {
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const auto found = std::ranges::find(edges[e]->tensors, name);
    if (found == edges[e]->tensors.end()) continue;
    const auto tensor = static_cast<std::size_t>(found - edges[e]->tensors.begin());
    return Wire{kind, e, tensor, !edges[e]->types[tensor].max_bytes()};
  }
  return std::nullopt;
}

const Type* declared_type(const plan::Plan& plan, const std::string& name) {
  const auto parameter = std::ranges::find(plan.parameters, name, &plan::Parameter::name);
  if (parameter != plan.parameters.end()) return &parameter->type;
  const auto* info = plan.find_tensor(name);
  return info == nullptr ? nullptr : &info->type;
}

std::string name_of(const plan::Partition& partition) {
  if (partition.backend != plan::kFunctionBackend) return "model '" + partition.model + "'";
  const auto named = partition.options.find("function");
  return "function '" + (named == partition.options.end() ? partition.model : named->second) + "'";
}

// The type of one item, where a stage runs for each.
Type item_type(Type type) {
  if (!type.dims.empty()) type.dims.erase(type.dims.begin());
  return type;
}

// Each call gets a view of its item, which begins at a whole byte.
bool begins_at_bytes(const Type& item) {
  std::size_t bits = bits_of(item.dtype);
  for (const auto& dim : item.dims) bits *= dim.fixed() ? static_cast<std::size_t>(dim.size) : 1;
  return bits % 8 == 0;
}

// plan.json may have been edited: then it must still fit the models.
Status check_type(const plan::Plan& plan, const plan::Partition& partition, const std::string& name,
                  const backend::Port& port, bool items) {
  const Type* declared = declared_type(plan, name);
  if (items && !begins_at_bytes(port.type)) {
    return invalid_argument("tensor '", name, "': items of ", port.type,
                            " are not of whole bytes: a stage with 'each' cannot take them apart; "
                            "give them a type of 8 bits or more");
  }
  if (declared == nullptr || plan::agree(items ? item_type(*declared) : *declared, port.type))
    return {};
  return invalid_argument("tensor '", name, "': the plan says ", *declared,
                          items ? ", one item of it for each call, " : ", ", name_of(partition),
                          " says ", port.type,
                          partition.backend == plan::kFunctionBackend ? "; change one of them"
                                                                      : "; split the model again");
}

// What a backend made of the tensor that it was given.
Status check_output(const CompiledPartition& partition, std::size_t i, const Tensor& value) {
  Status fits = check_matches(partition.outputs[i].type, value);
  if (fits) return {};
  const auto& name = partition.output_names[i];
  return internal_error("backend '", partition.plan->backend, "': ", name_of(*partition.plan),
                        ": output '", name, "': ", std::move(fits).error().message(),
                        "; its outputs must be as it declares them");
}

Status check_count(const plan::Partition& partition, std::string_view what, std::size_t declared,
                   std::size_t given) {
  if (declared == given) return {};
  return invalid_argument(name_of(partition), " has ", declared, " ", what, ", the plan gives it ",
                          given);
}

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

double ms(std::int64_t ns) {
  return static_cast<double>(ns / 1000) / 1000;
}

// A stage runs what a plugin brings: nothing that it throws may pass.
template <typename Call>
Status guarded(Call call) {
  try {
    try {
      return call();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      return internal_error("the backend threw an exception: ", e.what());
    } catch (...) {
      return internal_error("the backend threw an exception of unknown type");
    }
  } catch (const std::bad_alloc&) {  // Or there is none to tell of the exception.
    return out_of_memory();
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): each thread's own
thread_local Worker* t_worker = nullptr;

}  // namespace

PausedClock::PausedClock()
    : ran_ns_(t_worker == nullptr ? -1 : t_worker->clock().pause(now_ns())) {}

PausedClock::~PausedClock() {
  if (ran_ns_ >= 0) t_worker->clock().resume(now_ns(), ran_ns_);
}

Worker::Worker(State& state, Stage& stage, std::size_t replica)
    : state_(state), stage_(stage), replica_(replica) {
  const auto max_run = state.options.max_run ? state.options.max_run : stage.plan->max_run;
  if (max_run) max_run_ns_ = std::chrono::nanoseconds(*max_run).count();
}

Worker::~Worker() {
  join();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::free() {
  parts_.clear();
  locals_.clear();
  parameters_.reset();
}

Status Worker::start(const std::vector<backend::CompileRequest>& requests,
                     const std::vector<int>& mask, Executables& executables) {
  std::promise<Status> started;
  auto outcome = started.get_future();
  // The thread keeps what it reads: it may come back from a call that everybody else gave up.
  PENSTOCK_CHECK_OK(
      start_thread(thread_, [this, keep = state_.shared_from_this(), &requests, &mask, &executables,
                             &started] { main(requests, mask, executables, started); }));
  Status ready = outcome.get();
  const std::scoped_lock lock(state_.left_mutex);
  state_.running_workers += ready ? 1 : 0;
  return ready;
}

void Worker::main(const std::vector<backend::CompileRequest>& requests,
                  const std::vector<int>& mask, Executables& executables,
                  std::promise<Status>& started) {
  t_worker = this;
  Status ready = guarded([&] { return prepare(requests, mask, executables); });
  const bool go = static_cast<bool>(ready);
  started.set_value(std::move(ready));
  if (go) loop();
}

Status Worker::prepare(const std::vector<backend::CompileRequest>& requests,
                       const std::vector<int>& mask, Executables& executables) {
  device::name_this_thread(thread_name());
  PENSTOCK_CHECK_OK(device::pin_this_thread(mask));
  const bool flush = stage_.plan->flush_denormals;
  device::set_flush_denormals(flush);
  PENSTOCK_CHECK_OK(compile(requests, executables));
  PENSTOCK_CHECK_OK(warm_up());
  device::set_flush_denormals(flush);
  std::size_t threads = 0;
  for (std::size_t p = 0; p < requests.size(); ++p) {
    threads += static_cast<std::size_t>(requests[p].threads - 1 + executables[p]->idle_threads());
  }
  PENSTOCK_CHECK_OK(check_threads(mask, threads));
  if (state_.options.trace) spans_.resize(kSpansKept);
  return {};
}

Status Worker::compile(const std::vector<backend::CompileRequest>& requests,
                       Executables& executables) {
  executables.resize(requests.size());
  for (std::size_t p = 0; p < requests.size(); ++p) {
    auto& partition = stage_.partitions[p];
    if (!executables[p]) {
      PENSTOCK_TRY(std::shared_ptr<backend::Executable> made,
                   partition.backend->compile(requests[p]));
      executables[p] = std::move(made);
    }
    if (replica_ == 0) PENSTOCK_CHECK_OK(wire(partition, *executables[p]));
    Part part;
    part.executable = executables[p];
    PENSTOCK_TRY(part.context, executables[p]->create_context());
    part.inputs.resize(partition.inputs.size());
    part.outputs.resize(partition.outputs.size());
    part.input_items.resize(partition.inputs.size());
    part.output_items.resize(partition.outputs.size());
    part.places.resize(partition.outputs.size());
    parts_.push_back(std::move(part));
  }
  for (const auto& type : stage_.locals) locals_.push_back(storage_for(type));
  in_slots_.resize(stage_.in_edges.size());
  out_slots_.resize(stage_.out_edges.size());
  if (!stage_.versions.empty()) parameters_ = stage_.versions.front();
  return {};
}

Status Worker::wire(CompiledPartition& partition, const backend::Executable& executable) {
  const auto local = [&](const std::string& name, const Type& type) {
    for (std::size_t i = 0; i < stage_.locals.size(); ++i) {
      if (stage_.local_names[i] == name)
        return Wire{Wire::Kind::kLocal, i, 0, !stage_.locals[i].max_bytes()};
    }
    stage_.locals.push_back(type);
    stage_.local_names.push_back(name);
    return Wire{Wire::Kind::kLocal, stage_.locals.size() - 1, 0, !type.max_bytes()};
  };
  const auto find_state = [](const std::vector<StateEdge*>& list,
                             const std::string StateEdge::* end,
                             const std::string& name) -> std::optional<std::size_t> {
    const auto found = std::ranges::find_if(list, [&](const auto* s) { return s->*end == name; });
    if (found == list.end()) return std::nullopt;
    return static_cast<std::size_t>(found - list.begin());
  };
  const auto find_written = [&](const std::string& name) -> std::optional<Wire> {
    if (auto edge = find_wire(stage_.out_edges, Wire::Kind::kOutEdge, name)) return edge;
    const auto state = find_state(stage_.states_out, &StateEdge::from, name);
    if (!state) return std::nullopt;
    const bool fresh = !state_.plan.find_tensor(name)->type.max_bytes();
    return Wire{Wire::Kind::kStateOut, *state, 0, fresh};
  };
  if (stage_.state_sources.empty()) {
    for (std::size_t s = 0; s < stage_.states_out.size(); ++s) {
      const auto wire = find_written(stage_.states_out[s]->from);
      const bool itself = wire->kind == Wire::Kind::kStateOut && wire->where == s;
      stage_.state_sources.push_back(itself ? std::nullopt : wire);
    }
  }
  const auto& each = stage_.plan->each;
  // Of what passes between the stage's own partitions, the plan knows the type of one item.
  const auto holds_items = [&](const std::string& name) {
    const auto& written = stage_.plan->outputs;
    return !each.empty() && (std::ranges::find(each, name) != each.end() ||
                             std::ranges::find(written, name) != written.end());
  };
  // A function's ports are the plan's in order: an input and an output may have one name.
  const bool in_order = partition.plan->backend == plan::kFunctionBackend;
  if (in_order) {
    PENSTOCK_CHECK_OK(check_count(*partition.plan, "inputs", executable.inputs().size(),
                                  partition.plan->inputs.size()));
    PENSTOCK_CHECK_OK(check_count(*partition.plan, "outputs", executable.outputs().size(),
                                  partition.plan->outputs.size()));
  }
  for (std::size_t i = 0; i < executable.outputs().size(); ++i) {
    const auto& port = executable.outputs()[i];
    const auto& name = in_order ? partition.plan->outputs[i] : partition.plan->tensor_of(port.name);
    auto wire = find_written(name);
    if (wire) wire->items = !each.empty();
    PENSTOCK_CHECK_OK(check_type(state_.plan, *partition.plan, name, port, holds_items(name)));
    partition.outputs.push_back(wire ? *wire : local(name, port.type));
    const Type* declared = wire ? declared_type(state_.plan, name) : &port.type;
    const bool items = wire && holds_items(name);
    partition.outputs.back().type = items ? item_type(*declared) : *declared;
    partition.outputs.back().storage = *declared;
    partition.output_names.push_back(name);
  }
  for (std::size_t i = 0; i < executable.inputs().size(); ++i) {
    const auto& port = executable.inputs()[i];
    const auto& name = in_order ? partition.plan->inputs[i] : partition.plan->tensor_of(port.name);
    const auto& parameters = stage_.plan->parameters;
    Wire wire;
    if (const auto at = std::ranges::find(parameters, name); at != parameters.end()) {
      wire = {Wire::Kind::kParameter, static_cast<std::size_t>(at - parameters.begin()), 0, false};
    } else if (const auto in = find_wire(stage_.in_edges, Wire::Kind::kInEdge, name)) {
      wire = *in;
      wire.items = std::ranges::find(each, name) != each.end();
    } else if (const auto state = find_state(stage_.states_in, &StateEdge::to, name)) {
      wire = {Wire::Kind::kStateIn, *state, 0, false};
      wire.items = std::ranges::find(each, name) != each.end();
    } else if (const auto written = find_written(name)) {
      wire = *written;
      wire.items = !each.empty();
    } else if (std::ranges::find(stage_.local_names, name) != stage_.local_names.end()) {
      wire = local(name, port.type);
    } else {
      return invalid_argument(name_of(*partition.plan), " reads tensor '", name,
                              "', which no edge brings to this stage; split the model again");
    }
    PENSTOCK_CHECK_OK(check_type(state_.plan, *partition.plan, name, port, holds_items(name)));
    partition.inputs.push_back(wire);
  }
  return {};
}

Status Worker::warm_up() {
  if (stage_.may_drop) return {};  // A function would count it as a frame.
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
  return {};
}

void Worker::warm_up_parts() {
  const bool items = !stage_.plan->each.empty();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    auto& part = parts_[p];
    gather(0, p);
    // Without a bound there is nothing sensible to run on: the first frame warms up instead.
    const auto absent = [](const Tensor* tensor) { return tensor->kind() == Tensor::Kind::kNone; };
    if (std::ranges::any_of(part.inputs, absent) || (items && !has_items(p))) return;
    if (items) view_item(p, 0);
    // Zeros may be no fair input (an index out of range, a division): then it did not warm up.
    if (!part.context->run(part.inputs, part.outputs) || !part.context->wait()) return;
  }
}

// Whether every list that a call takes apart holds something.
bool Worker::has_items(std::size_t p) const {
  const auto& partition = stage_.partitions[p];
  const auto& part = parts_[p];
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    if (partition.inputs[i].items && part.inputs[i]->bytes() == 0) return false;
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    if (partition.outputs[i].items && part.outputs[i]->bytes() == 0) return false;
  }
  return true;
}

std::string Worker::thread_name() const {
  constexpr std::size_t kKept = 15;  // The kernel cuts longer names.
  return concat("ps", device::this_thread_id(), ".", stage_.index).substr(0, kKept);
}

Status Worker::check_threads(const std::vector<int>& mask, std::size_t expected) const {
  const auto own = device::cpus_of_thread(device::this_thread_id());
  if (own != mask) {
    return internal_error("backend '", stage_.plan->partitions.front().backend,
                          "' moved the stage's thread to ", text_of(own), ", expected ",
                          text_of(mask));
  }
  auto workers = device::threads_after(device::this_thread_id());
  std::erase_if(workers,
                [&, name = thread_name()](int tid) { return device::name_of_thread(tid) != name; });
  for (const int tid : workers) {
    const auto cpus = device::cpus_of_thread(tid);
    if (!std::ranges::includes(mask, cpus)) {
      return internal_error("backend '", stage_.plan->partitions.front().backend,
                            "' runs a thread on ", text_of(cpus), ", outside the stage's ",
                            text_of(mask));
    }
  }
  if (workers.size() > expected) {
    return internal_error("backend '", stage_.plan->partitions.front().backend, "' made ",
                          workers.size(), " threads, expected at most ", expected);
  }
  return {};
}

void Worker::loop() {
  FrameNumber frame = 0;
  while (claim(&frame)) {
    if (!process(frame)) return;
  }
  leave();
}

void Worker::leave() {
  const std::scoped_lock lock(state_.left_mutex);
  --state_.running_workers;
  state_.left.notify_all();
}

bool Worker::leave_at(FrameNumber frame) const {
  if (state_.ending.stopping()) return true;
  return state_.ending.closed() && frame >= state_.source.done();
}

// Replicas claim a frame only once its inputs are there, so that the idle one takes it.
bool Worker::claim(FrameNumber* frame) {
  for (;;) {
    FrameNumber next = stage_.next.load(std::memory_order_acquire);
    bool ready = true;
    for (auto& wait : inputs) {
      if (wait.seen <= next) wait.seen = wait.progress->done();
      ready = ready && wait.seen > next;
    }
    if (!ready) {
      if (leave_at(next)) return false;
      wait_for_input(next);
      continue;
    }
    if (state_.ending.stopping()) return false;
    if (stage_.plan->devices.size() == 1) {
      stage_.next.store(next + 1, std::memory_order_relaxed);
    } else if (!stage_.next.compare_exchange_strong(next, next + 1, std::memory_order_acq_rel)) {
      continue;
    }
    *frame = next;
    return true;
  }
}

void Worker::wait_for_input(FrameNumber frame) {
  idled_ = true;
  const auto late =
      std::ranges::find_if(inputs, [&](const Wait& wait) { return wait.seen <= frame; });
  Batch batch;
  if (stage_.plan->devices.size() == 1) {
    const FrameNumber pushed = state_.source.done();
    const FrameNumber upstream = pushed > frame ? pushed - frame : 0;
    batch.frames = std::clamp<FrameNumber>(upstream / 2, 1, state_.wake_batch);
  }
  sleep_until(*late, frame + 1, batch, kNever, [&] {
    return leave_at(frame) || stage_.next.load(std::memory_order_seq_cst) != frame;
  });
}

void Worker::wait_for_room(FrameNumber frame) {
  const auto interrupted = [&] { return state_.ending.cancelled(); };
  for (auto& room : rooms) {
    if (frame < room.capacity) continue;
    const FrameNumber least = frame - room.capacity + 1;
    while (room.wait.seen < least) {
      room.wait.seen = room.wait.progress->done();
      if (room.wait.seen >= least || interrupted()) break;
      idled_ = true;
      const bool of_caller = room.wait.progress == &state_.sink;
      if (of_caller) ++state_.awaiting_release;
      sleep_until(room.wait, least, {state_.wake_batch}, kNever, interrupted);
      if (of_caller) --state_.awaiting_release;
    }
  }
}

std::int64_t Worker::ready_since(FrameNumber frame) const {
  std::int64_t ready = 0;
  for (const auto* times : stage_.producer_ready_ns) {
    ready = std::max(ready, (*times)[frame & state_.window_mask]);
  }
  return ready;
}

// A reader of its own state has it already: it sees the frames in order.
void Worker::wait_for_states(FrameNumber frame) {
  const auto interrupted = [&] { return state_.ending.cancelled(); };
  for (auto& wait : states) {
    while (wait.seen < frame) {
      wait.seen = wait.progress->done();
      if (wait.seen >= frame || interrupted()) break;
      idled_ = true;
      sleep_until(wait, frame, {}, kNever, interrupted);
    }
  }
}

bool Worker::process(FrameNumber frame) {
  const std::int64_t ready = ready_since(frame);
  if (!begin(frame)) {
    stage_.computed[frame & state_.window_mask] = 0;
    finish(frame);
    return true;
  }
  const std::int64_t start = idled_ ? now_ns() : std::max(clock_, ready);
  idled_ = false;
  // Two more clock reads tell the phases apart; short stages take them for one frame in 16.
  const bool sample = average_ns_ > 20'000 || frame % 16 == 0;
  infer_start_ = 0;
  running_frame_.store(frame, std::memory_order_relaxed);
  call_clock_.begin(start);
  Status status = compute(frame, sample);
  if (!call_clock_.end()) return false;
  clock_ = now_ns();
  if (status && !stage_.states_out.empty()) status = guarded([&] { return advance_states(); });
  stage_.computed[frame & state_.window_mask] = status ? 1 : 0;
  if (status) {
    note(frame, ready, start, clock_);
  } else {
    fail(frame, std::move(status).error());
  }
  finish(frame);
  if (sample) {
    const std::int64_t handed_on = now_ns();
    compute_output.record(handed_on - clock_);
    clock_ = handed_on;
  }
  return true;
}

bool Worker::begin(FrameNumber frame) {
  for (Edge* edge : stage_.in_edges) {
    if (edge->lossy()) edge->begin_read(frame);
  }
  if (!is_due(frame) || expired(frame)) return false;
  if (!states.empty()) wait_for_states(frame);
  wait_for_room(frame);
  if (ended(frame)) return false;
  if (expired(frame)) return false;  // It may have grown old while it waited.
  for (std::size_t e = 0; e < out_slots_.size(); ++e) {
    Edge& edge = *stage_.out_edges[e];
    if (edge.lossy() && !edge.begin_write(frame)) {
      edge.on_drop(edge, frame);
      edge.drops.fetch_add(1, std::memory_order_relaxed);
      for (std::size_t before = 0; before < e; ++before) {
        if (stage_.out_edges[before]->lossy()) stage_.out_edges[before]->abandon_write(frame);
      }
      return false;
    }
    out_slots_[e] = &edge.slot(frame);
  }
  for (std::size_t e = 0; e < in_slots_.size(); ++e)
    in_slots_[e] = &stage_.in_edges[e]->slot(frame);
  return true;
}

bool Worker::is_due(FrameNumber frame) const {
  if (!stage_.feeds_state) return state_.record(frame).alive();
  return std::ranges::all_of(stage_.stages_before, [&](const Stage* before) {
    return before->computed[frame & state_.window_mask] != 0;
  });
}

bool Worker::ended(FrameNumber frame) {
  if (state_.ending.fails(frame)) {
    state_.record(frame).fail(Outcome::kError, [&] {
      return make_error(Code::kDeadlineExceeded,
                        "behind a call that hangs: ", state_.ending.error().message())
          .within({Where::kFrame, frame});
    });
    return true;
  }
  if (state_.ending.given_up(frame)) {
    state_.record(frame).fail(Outcome::kCancelled, [&] {
      return make_error(Code::kCancelled, "given up").within({Where::kFrame, frame});
    });
    return true;
  }
  if (!state_.ending.cancelled()) return false;
  state_.record(frame).fail(Outcome::kCancelled, [&] { return state_.ending.error(); });
  return true;
}

bool Worker::expired(FrameNumber frame) {
  if (!state_.options.max_age) return false;
  const auto age = std::chrono::nanoseconds(now_ns() - state_.record(frame).pushed_ns);
  if (age <= *state_.options.max_age) return false;
  const auto us = [](auto d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  };
  Status late = guarded([&]() -> Status {
    return make_error(Code::kDeadlineExceeded, "deadline_exceeded: ", us(age),
                      " us since its push, at most ", us(*state_.options.max_age), " us allowed");
  });
  fail(frame, std::move(late).error());
  return true;
}

void Worker::gather(FrameNumber frame, std::size_t p) {
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
    const Wire& wire = partition.outputs[i];
    Tensor& output = target_of(wire);
    if (wire.fresh) output = Tensor();
    part.outputs[i] = &output;
  }
}

Tensor& Worker::target_of(const Wire& wire) {
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
void Worker::restore_storage() {
  for (const auto& partition : stage_.partitions) {
    for (const auto& wire : partition.outputs) {
      if (!wire.fresh) restore_storage_for(wire.storage, target_of(wire));
    }
  }
}

Status Worker::compute(FrameNumber frame, bool sample) {
  Status ran = guarded([&]() -> Status {
    if (stage_.plan->each.empty()) return run_parts(frame, sample);
    if (sample) infer_start_ = now_ns();
    return run_items(frame);
  });
  if (ran || call_clock_.abandoned()) return ran;
  Status restored = guarded([&]() -> Status {
    restore_storage();
    return {};
  });
  return restored ? std::move(ran) : std::move(restored);
}

Status Worker::run_parts(FrameNumber frame, bool sample) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    // A call that came back after all may have lost its frame meanwhile: nothing more is touched.
    if (p > 0 && call_clock_.abandoned()) return make_error(Code::kCancelled, "abandoned");
    gather(frame, p);
    if (sample && p == 0) infer_start_ = now_ns();
    auto& part = parts_[p];
    PENSTOCK_CHECK_OK(part.context->run(part.inputs, part.outputs));
    PENSTOCK_CHECK_OK(part.context->wait());
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      PENSTOCK_CHECK_OK(check_output(stage_.partitions[p], i, *part.outputs[i]));
    }
  }
  return {};
}

// Gathers what every item has in common, and gives the outputs their number of items.
Result<std::int64_t> Worker::count_items(FrameNumber frame) {
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
      if (!stage_.partitions[p].outputs[i].items) continue;
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
void Worker::view_item(std::size_t p, std::int64_t item) {
  auto& part = parts_[p];
  const auto& partition = stage_.partitions[p];
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    if (!partition.inputs[i].items) continue;
    part.input_items[i] = item_of(*part.inputs[i], item);
    part.inputs[i] = &part.input_items[i];
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    if (!partition.outputs[i].items) continue;
    part.output_items[i] = item_of(*part.outputs[i], item);
    part.outputs[i] = &part.output_items[i];
    part.places[i] = part.outputs[i]->data();
  }
}

Status Worker::run_item(FrameNumber frame, std::int64_t item) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (p > 0 && call_clock_.abandoned()) return make_error(Code::kCancelled, "abandoned");
    gather(frame, p);
    view_item(p, item);
    auto& part = parts_[p];
    const auto& partition = stage_.partitions[p];
    PENSTOCK_CHECK_OK(part.context->run(part.inputs, part.outputs));
    PENSTOCK_CHECK_OK(part.context->wait());
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      PENSTOCK_CHECK_OK(check_output(partition, i, *part.outputs[i]));
      if (!partition.outputs[i].items) continue;
      PENSTOCK_CHECK_OK(put_in_place(partition, i, *part.outputs[i], part.places[i]));
    }
  }
  return {};
}

// An item has its place in the list, as large as the others': it is copied there if it lies
// elsewhere.
Status Worker::put_in_place(const CompiledPartition& partition, std::size_t i, const Tensor& item,
                            void* place) {
  const auto& whole = target_of(partition.outputs[i]).dims();
  if (!std::ranges::equal(std::span(whole).subspan(1), item.dims())) {
    return make_error(Code::kOutOfRange, "output '", partition.output_names[i], "' is ",
                      item.type(), ", where each item has its place in ",
                      target_of(partition.outputs[i]).type(), "; items must be of one shape");
  }
  if (item.data() == place || item.bytes() == 0) return {};
  std::memcpy(place, item.data(), item.bytes());
  copies_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

// Scatter: one call for each item, in order, each writing its own place of the outputs.
Status Worker::run_items(FrameNumber frame) {
  PENSTOCK_TRY(const auto items, count_items(frame));
  for (std::int64_t item = 0; item < items; ++item) {
    if (call_clock_.abandoned() || state_.ending.cancelled()) {
      return state_.ending.error();
    }
    Status ran = run_item(frame, item);
    if (!ran) return std::move(ran).error().within({Where::kItem, item});
  }
  return {};
}

// The frame is computed: what it wrote is the next one's state.
Status Worker::advance_states() {
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

void Worker::note(FrameNumber frame, std::int64_t ready, std::int64_t start, std::int64_t end) {
  frames.store(frames.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  queue.record(start - ready);
  compute_infer.record(end - (infer_start_ != 0 ? infer_start_ : start));
  if (infer_start_ != 0) {
    compute_input.record(infer_start_ - start);
  }
  average_ns_ += (end - start - average_ns_) / 8;
  // Of arrivals, not of service: a fast stage behind a slow one brings frames at the slow one's
  // pace. A pause counts as what nobody waits longer than, so that it is soon forgotten.
  const std::int64_t interval = std::min(end - last_end_, 2 * Batch::kCallerPatience);
  last_end_ = end;
  interval_ns_ += (interval - interval_ns_) / 8;
  stage_.period_ns.store(interval_ns_ / static_cast<std::int64_t>(stage_.plan->devices.size()),
                         std::memory_order_relaxed);
  if (state_.options.trace) {
    const std::scoped_lock lock(span_mutex_);
    spans_[span_count_++ % spans_.size()] = {frame, ready, start, end};
  }
}

Spans Worker::spans() const {
  const std::scoped_lock lock(span_mutex_);
  const auto kept = std::min<std::uint64_t>(span_count_, spans_.size());
  return {{spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(kept)}, span_count_ - kept};
}

void Worker::fail(FrameNumber frame, Error error) {
  const bool dropped = stage_.may_drop && error.code == Code::kAborted;
  auto& counter = dropped ? drops : errors;
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const bool cancelled = state_.ending.cancelled() && error.code == Code::kCancelled;
  const bool stops = !dropped && !cancelled && state_.options.on_error == plan::OnError::kStop;
  Error cause;
  const auto placed = [&] {
    Error made =
        std::move(error).within({Where::kFrame, frame}).within({Where::kStage, stage_.plan->name});
    if (stops) cause = made;
    return made;
  };
  const auto outcome = dropped     ? Outcome::kDropped
                       : cancelled ? Outcome::kCancelled
                                   : Outcome::kError;
  const bool first = state_.record(frame).fail(outcome, placed);
  // What a frame does not tell, since it was dropped before, stops nothing.
  if (first && stops) state_.cancel(cause.reason.empty() ? out_of_memory() : std::move(cause));
}

void Worker::finish(FrameNumber frame) {
  const bool alive = state_.record(frame).alive();
  for (Edge* edge : stage_.in_edges) edge->end_read(frame);
  for (Edge* edge : stage_.out_edges) {
    if (!edge->lossy()) continue;
    if (alive) {
      edge->end_write(frame);
    } else {
      edge->abandon_write(frame);
    }
  }
  for (StateEdge* state : stage_.states_out) state->complete(frame);
  stage_.ready_ns[frame & state_.window_mask] = clock_;
  stage_.progress.complete(frame);
}

void Worker::replace(std::int64_t ran_ns) {
  const FrameNumber frame = running_frame_.load(std::memory_order_relaxed);
  errors.store(errors.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  Status told = guarded([&]() -> Status {
    return make_error(Code::kDeadlineExceeded, "the call hangs: it has run for ", ms(ran_ns),
                      " ms, at most ", ms(max_run_ns_), " ms allowed (max_run)")
        .within({Where::kFrame, frame})
        .within({Where::kStage, stage_.plan->name});
  });
  Error cause = std::move(told).error();
  state_.record(frame).fail(Outcome::kError, [&] { return cause; });
  state_.hang(frame, std::move(cause));
  cancel_run();
  // Without a thread for it this one, the watchdog's, passes on the frames until the pipeline ends.
  if (!hand_over(frame)) take_over(frame);
}

std::int64_t Worker::ran_ns(CallClock::Reading reading) const {
  const bool counts = reading.phase == CallClock::Phase::kRunning ||
                      // Where a call hangs, what others wait for may never come.
                      (reading.phase == CallClock::Phase::kPaused && state_.ending.hangs());
  return counts ? now_ns() - reading.since_ns : 0;
}

std::optional<std::string> Worker::leave_behind() {
  const auto reading = call_clock_.read();
  if (!call_clock_.abandon(reading)) return std::nullopt;
  const FrameNumber frame = running_frame_.load(std::memory_order_relaxed);
  state_.record(frame).fail(Outcome::kCancelled, [&] { return state_.ending.error(); });
  if (!hand_over(frame)) leave();
  return concat("stage '", stage_.plan->name, "': frame ", frame, ": the call has run for ",
                ms(now_ns() - reading.since_ns),
                " ms and goes on; the pipeline ends without it, and leaves its thread behind");
}

bool Worker::hand_over(FrameNumber frame) {
  state_.left_calls.store(true);
  thread_.detach();
  return static_cast<bool>(
      start_thread(thread_, [this, keep = state_.shared_from_this(), frame] { take_over(frame); }));
}

// What the call may still read stays as it is: nothing of this frame is released.
void Worker::take_over(FrameNumber frame) {
  t_worker = this;
  static_cast<void>(guarded([&]() -> Status {
    device::name_this_thread(thread_name());
    return {};
  }));
  clock_ = now_ns();
  for (StateEdge* state : stage_.states_out) state->complete(frame);
  stage_.ready_ns[frame & state_.window_mask] = clock_;
  stage_.computed[frame & state_.window_mask] = 0;
  stage_.progress.complete(frame);
  loop();
}

void Worker::advance_parameters(FrameNumber frame) {
  if (stage_.newest_version.load(std::memory_order_acquire) == parameters_->number) return;
  const std::scoped_lock lock(stage_.parameter_mutex);
  const auto later = std::ranges::find_if(
      stage_.versions, [&](const auto& version) { return version->first_frame > frame; });
  parameters_ = *std::prev(later);
}

void Worker::cancel_run() {
  for (auto& part : parts_) {
    if (part.context) part.context->cancel();
  }
}

backend::Context::Counters Worker::counters() const {
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
