#include "penstock/pipeline/worker.h"

#include <algorithm>
#include <exception>
#include <new>

#include "penstock/pipeline/affinity.h"
#include "penstock/pipeline/state.h"

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

// What either leaves open agrees with anything.
bool agree(const Type& a, const Type& b) {
  if (a.kind == Type::Kind::kUnknown || b.kind == Type::Kind::kUnknown) return true;
  if (a.kind != b.kind || a.dtype != b.dtype) return false;
  if (!a.ranked || !b.ranked) return true;
  return std::ranges::equal(a.dims, b.dims, [](const Dim& one, const Dim& other) {
    return !one.fixed() || !other.fixed() || one.size == other.size;
  });
}

// plan.json may have been edited: then it must still fit the models.
Status check_types(const plan::Plan& plan, const std::string& model,
                   std::span<const backend::Port> ports) {
  for (const auto& port : ports) {
    const Type* declared = declared_type(plan, port.name);
    if (declared == nullptr || agree(*declared, port.type)) continue;
    return invalid_argument("tensor '", port.name, "': the plan says ", *declared, ", model '",
                            model, "' says ", port.type, "; split the model again");
  }
  return {};
}

// A stage runs what a plugin brings: nothing that it throws may pass.
template <typename Call>
Status guarded(Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return make_error(Code::kResourceExhausted, "out of memory");
  } catch (const std::exception& e) {
    return internal_error("the backend threw an exception: ", e.what());
  } catch (...) {
    return internal_error("the backend threw an exception of unknown type");
  }
}

}  // namespace

Worker::Worker(State& state, Stage& stage, std::size_t replica)
    : state_(state), stage_(stage), replica_(replica) {}

Worker::~Worker() {
  join();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

Status Worker::start(const std::vector<backend::CompileRequest>& requests,
                     const std::vector<int>& mask, Executables& executables) {
  std::promise<Status> started;
  auto outcome = started.get_future();
  thread_ = std::thread([this, &requests, &mask, &executables, &started] {
    main(requests, mask, executables, started);
  });
  return outcome.get();
}

void Worker::main(std::vector<backend::CompileRequest> requests, std::vector<int> mask,
                  Executables& executables, std::promise<Status>& started) {
  Status ready = guarded([&] { return prepare(requests, mask, executables); });
  const bool go = static_cast<bool>(ready);
  started.set_value(std::move(ready));
  if (go) loop();
}

Status Worker::prepare(const std::vector<backend::CompileRequest>& requests,
                       const std::vector<int>& mask, Executables& executables) {
  // Threads inherit the name of the thread that makes them: it tells ours from the rest.
  name_this_thread(concat("ps", this_thread_id(), ".", stage_.index));
  PENSTOCK_CHECK_OK(pin_this_thread(mask));
  const bool flush = stage_.plan->flush_denormals;
  set_flush_denormals(flush);
  PENSTOCK_CHECK_OK(compile(requests, executables));
  PENSTOCK_CHECK_OK(warm_up());
  set_flush_denormals(flush);
  const auto& request = requests.front();
  const auto pools = request.threads > 1 ? requests.size() : 0;
  PENSTOCK_CHECK_OK(check_threads(mask, pools * static_cast<std::size_t>(request.threads - 1)));
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
    PENSTOCK_TRY(part.context, executables[p]->create_context());
    part.inputs.resize(partition.inputs.size());
    part.outputs.resize(partition.outputs.size());
    parts_.push_back(std::move(part));
  }
  for (const auto& type : stage_.locals) locals_.push_back(storage_for(type));
  in_slots_.resize(stage_.in_edges.size());
  out_slots_.resize(stage_.out_edges.size());
  parameters_ = stage_.versions.empty() ? nullptr : stage_.versions.front().get();
  return {};
}

Status Worker::wire(CompiledPartition& partition, const backend::Executable& executable) {
  const auto local = [&](const backend::Port& port) {
    for (std::size_t i = 0; i < stage_.locals.size(); ++i) {
      if (stage_.local_names[i] == port.name)
        return Wire{Wire::Kind::kLocal, i, 0, !stage_.locals[i].max_bytes()};
    }
    stage_.locals.push_back(port.type);
    stage_.local_names.push_back(port.name);
    return Wire{Wire::Kind::kLocal, stage_.locals.size() - 1, 0, !port.type.max_bytes()};
  };
  PENSTOCK_CHECK_OK(check_types(state_.plan, partition.plan->model, executable.inputs()));
  PENSTOCK_CHECK_OK(check_types(state_.plan, partition.plan->model, executable.outputs()));
  for (const auto& port : executable.outputs()) {
    const auto found = find_wire(stage_.out_edges, Wire::Kind::kOutEdge, port.name);
    partition.outputs.push_back(found ? *found : local(port));
  }
  for (const auto& port : executable.inputs()) {
    const auto& parameters = stage_.plan->parameters;
    if (const auto at = std::ranges::find(parameters, port.name); at != parameters.end()) {
      partition.inputs.push_back(
          {Wire::Kind::kParameter, static_cast<std::size_t>(at - parameters.begin()), 0, false});
    } else if (const auto in = find_wire(stage_.in_edges, Wire::Kind::kInEdge, port.name)) {
      partition.inputs.push_back(*in);
    } else if (const auto out = find_wire(stage_.out_edges, Wire::Kind::kOutEdge, port.name)) {
      partition.inputs.push_back(*out);
    } else if (std::ranges::find(stage_.local_names, port.name) != stage_.local_names.end()) {
      partition.inputs.push_back(local(port));
    } else {
      return invalid_argument("model '", partition.plan->model, "' reads tensor '", port.name,
                              "', which no edge brings to this stage; split the model again");
    }
  }
  return {};
}

Status Worker::warm_up() {
  std::vector<std::vector<Tensor>> in, out;
  const auto make = [](const std::vector<Edge*>& edges, std::vector<std::vector<Tensor>>& made) {
    for (const Edge* edge : edges) {
      auto& tensors = made.emplace_back();
      for (const auto& type : edge->types) tensors.push_back(storage_for(type));
    }
  };
  make(stage_.in_edges, in);
  make(stage_.out_edges, out);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const auto& partition = stage_.partitions[p];
    auto& part = parts_[p];
    const auto tensor_at = [&](const Wire& wire) -> Tensor* {
      switch (wire.kind) {
        case Wire::Kind::kInEdge:
          return &in[wire.where][wire.tensor];
        case Wire::Kind::kOutEdge:
          return &out[wire.where][wire.tensor];
        case Wire::Kind::kLocal:
          return &locals_[wire.where];
        case Wire::Kind::kParameter:
          return &parameters_->values[wire.where];
      }
      return nullptr;
    };
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      part.inputs[i] = tensor_at(partition.inputs[i]);
      // Without a bound there is nothing sensible to run on: the first frame warms up instead.
      if (part.inputs[i]->kind() == Tensor::Kind::kNone) return {};
    }
    for (std::size_t i = 0; i < part.outputs.size(); ++i)
      part.outputs[i] = tensor_at(partition.outputs[i]);
    // Zeros may be no fair input (an index out of range, a division): then it did not warm up.
    Status ran = part.context->run(part.inputs, part.outputs);
    if (ran) ran = part.context->wait();
    if (!ran) return {};
  }
  for (auto& part : parts_) part.at_start = part.context->counters();
  return {};
}

Status Worker::check_threads(const std::vector<int>& mask, std::size_t expected) const {
  const auto own = cpus_of_thread(this_thread_id());
  if (own != mask) {
    return internal_error("backend '", stage_.plan->partitions.front().backend,
                          "' moved the stage's thread to ", text_of(own), ", expected ",
                          text_of(mask));
  }
  const auto workers = threads_named(concat("ps", this_thread_id(), ".", stage_.index));
  for (const int tid : workers) {
    const auto cpus = cpus_of_thread(tid);
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
  while (claim(&frame)) process(frame);
}

bool Worker::leave_at(FrameNumber frame) const {
  if (state_.stopping.load(std::memory_order_seq_cst)) return true;
  return state_.closed.load(std::memory_order_seq_cst) && frame >= state_.source.done();
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
    if (state_.stopping.load(std::memory_order_relaxed)) return false;
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
  const auto interrupted = [&] {
    return state_.stopping.load(std::memory_order_seq_cst) ||
           state_.cancelled.load(std::memory_order_seq_cst);
  };
  for (auto& room : rooms) {
    if (frame < room.capacity) continue;
    const FrameNumber least = frame - room.capacity + 1;
    while (room.wait.seen < least) {
      room.wait.seen = room.wait.progress->done();
      if (room.wait.seen >= least || interrupted()) break;
      idled_ = true;
      sleep_until(room.wait, least, {state_.wake_batch}, kNever, interrupted);
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

void Worker::process(FrameNumber frame) {
  const std::int64_t ready = ready_since(frame);
  if (!begin(frame)) {
    finish(frame);
    return;
  }
  const std::int64_t start = idled_ ? now_ns() : std::max(clock_, ready);
  idled_ = false;
  // Two more clock reads tell the phases apart; short stages take them for one frame in 16.
  const bool sample = average_ns_ > 20'000 || frame % 16 == 0;
  infer_start_ = infer_end_ = 0;
  Status status = compute(frame, sample);
  clock_ = now_ns();
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
}

bool Worker::begin(FrameNumber frame) {
  for (Edge* edge : stage_.in_edges) {
    if (edge->lossy()) edge->begin_read(frame);
  }
  auto& record = state_.record(frame);
  if (!record.alive()) return false;
  if (expired(frame)) return false;
  wait_for_room(frame);
  if (state_.cancelled.load(std::memory_order_seq_cst)) {
    record.fail(Outcome::kCancelled, state_.closed_error());
    return false;
  }
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

bool Worker::expired(FrameNumber frame) {
  if (!state_.options.max_age) return false;
  const auto age = std::chrono::nanoseconds(now_ns() - state_.record(frame).pushed_ns);
  if (age <= *state_.options.max_age) return false;
  const auto us = [](auto d) {
    return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  };
  fail(frame,
       make_error(Code::kDeadlineExceeded, "deadline_exceeded: ", us(age),
                  " us since its push, at most ", us(*state_.options.max_age), " us allowed"));
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
    }
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    const Wire& wire = partition.outputs[i];
    Tensor& output = wire.kind == Wire::Kind::kLocal ? locals_[wire.where]
                                                     : out_slots_[wire.where]->own[wire.tensor];
    if (wire.fresh) output = Tensor();
    part.outputs[i] = &output;
  }
}

Status Worker::compute(FrameNumber frame, bool sample) {
  return guarded([&]() -> Status {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      gather(frame, p);
      if (sample && p == 0) infer_start_ = now_ns();
      auto& part = parts_[p];
      PENSTOCK_CHECK_OK(part.context->run(part.inputs, part.outputs));
      PENSTOCK_CHECK_OK(part.context->wait());
    }
    return {};
  });
}

void Worker::note(FrameNumber frame, std::int64_t ready, std::int64_t start, std::int64_t end) {
  frames.store(frames.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  queue.record(start - ready);
  compute_infer.record(end - (infer_start_ != 0 ? infer_start_ : start));
  if (infer_start_ != 0) {
    compute_input.record(infer_start_ - start);
    transfer.record(0);
  }
  average_ns_ += (end - start - average_ns_) / 8;
  stage_.period_ns.store(average_ns_ / static_cast<std::int64_t>(stage_.plan->devices.size()),
                         std::memory_order_relaxed);
  if (state_.options.trace) {
    const std::scoped_lock lock(span_mutex_);
    spans_[span_count_++ % spans_.size()] = {frame, ready, start, end};
  }
}

std::vector<Span> Worker::spans() const {
  const std::scoped_lock lock(span_mutex_);
  const auto kept = std::min<std::uint64_t>(span_count_, spans_.size());
  return {spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(kept)};
}

void Worker::fail(FrameNumber frame, Error error) {
  errors.store(errors.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const bool cancelled =
      state_.cancelled.load(std::memory_order_seq_cst) && error.code == Code::kCancelled;
  Error placed = std::move(error).within(concat("stage '", stage_.plan->name, "': frame ", frame));
  const Error cause = placed;
  state_.record(frame).fail(cancelled ? Outcome::kCancelled : Outcome::kError, std::move(placed));
  if (!cancelled && state_.options.on_error == plan::OnError::kStop) state_.cancel(cause);
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
  stage_.ready_ns[frame & state_.window_mask] = clock_;
  stage_.progress.complete(frame);
}

void Worker::advance_parameters(FrameNumber frame) {
  for (;;) {
    ParameterVersion* next = parameters_->next.load(std::memory_order_acquire);
    if (next == nullptr || next->first_frame > frame) return;
    parameters_ = next;
    parameter_version.store(next->number, std::memory_order_release);
  }
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
  return sum;
}

}  // namespace penstock::pipeline
