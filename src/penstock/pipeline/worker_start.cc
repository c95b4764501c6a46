// Worker: starts the thread, compiles, warms up, and checks what threads the backends made.
#include <algorithm>
#include <chrono>
#include <future>

#include "penstock/base/thread.h"
#include "penstock/device/affinity.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/ports.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/worker.h"
#include "penstock/plan/calls.h"

namespace penstock::pipeline {
namespace {

constexpr std::chrono::milliseconds kLook(500);  // Between two looks at the warm-up.

std::string text_of(const std::vector<int>& cpus) {
  return device::to_string(device::Device{.host = {}, .cpus = cpus});
}

// As many full calls as the edge holds.
int lanes_of(const Edge& edge, FrameNumber frames_of_call) {
  return std::max(edge.capacity() / static_cast<int>(frames_of_call), 1);
}

// Calls that do not go on by themselves follow one another, whatever their plan says.
std::size_t choose_lanes(const State& state, const Stage& stage,
                         const StageCall::Executables& executables, FrameNumber frames_of_call) {
  if (!StageCall::goes_on_alone(stage, executables) ||
      !plan::why_one_lane(state.plan, *stage.plan).empty()) {
    return 1;
  }
  int most = std::max(executables.front()->recommended_contexts(), 1);
  if (stage.plan->lanes > 0) most = std::min(most, stage.plan->lanes);
  for (const Edge* edge : stage.in_edges) most = std::min(most, lanes_of(*edge, frames_of_call));
  for (const Edge* edge : stage.out_edges) most = std::min(most, lanes_of(*edge, frames_of_call));
  return static_cast<std::size_t>(most);
}

// Threads that a backend makes on this one inherit the name, by which they are found.
std::string thread_name(const Stage& stage) {
  constexpr std::size_t kKept = 15;  // The kernel cuts longer names.
  return concat("ps", device::this_thread_id(), ".", stage.index).substr(0, kKept);
}

Status check_threads(const Stage& stage, const std::vector<int>& mask, std::size_t expected) {
  const auto own = device::cpus_of_thread(device::this_thread_id());
  if (own != mask) {
    return internal_error("backend '", stage.plan->partitions.front().backend,
                          "' moved the stage's thread to ", text_of(own), ", expected ",
                          text_of(mask));
  }
  auto workers = device::threads_after(device::this_thread_id());
  std::erase_if(workers, [&, name = thread_name(stage)](int tid) {
    return device::name_of_thread(tid) != name;
  });
  for (const int tid : workers) {
    const auto cpus = device::cpus_of_thread(tid);
    if (!std::ranges::includes(mask, cpus)) {
      return internal_error("backend '", stage.plan->partitions.front().backend,
                            "' runs a thread on ", text_of(cpus), ", outside the stage's ",
                            text_of(mask));
    }
  }
  if (workers.size() > expected) {
    return internal_error("backend '", stage.plan->partitions.front().backend, "' made ",
                          workers.size(), " threads, expected at most ", expected,
                          "; threads that sleep while frames run are told by "
                          "Executable::idle_threads()");
  }
  return {};
}

}  // namespace

Status Worker::start(const std::vector<backend::CompileRequest>& requests,
                     const std::vector<int>& mask, Executables& executables, WarmUp& warm_up) {
  join();  // Of a start that failed.
  mask_ = mask;
  std::promise<Status> started;
  auto outcome = started.get_future();
  // The thread keeps what it reads: it may come back from a call that everybody else gave up.
  PENSTOCK_CHECK_OK(start_thread(
      thread_, [this, keep = state_.shared_from_this(), &requests, &mask, &executables, &warm_up,
                &started] { main(requests, mask, executables, warm_up, started); }));
  while (outcome.wait_for(kLook) == std::future_status::timeout) warm_up.look();
  Status ready = outcome.get();
  const std::scoped_lock lock(state_.left_mutex);
  state_.running_workers += ready ? 1 : 0;
  return ready;
}

void Worker::main(const std::vector<backend::CompileRequest>& requests,
                  const std::vector<int>& mask, Executables& executables, WarmUp& warm_up,
                  std::promise<Status>& started) {
  Status ready = guarded([&] { return prepare(requests, mask, executables, warm_up); });
  const bool go = static_cast<bool>(ready);
  started.set_value(std::move(ready));
  if (!go) return;
  state_.gate.wait();
  selection_.begin_at(state_.first);
  loop();
}

Status Worker::prepare(const std::vector<backend::CompileRequest>& requests,
                       const std::vector<int>& mask, Executables& executables, WarmUp& warm_up) {
  PENSTOCK_CHECK_OK(adopt_thread());
  PENSTOCK_CHECK_OK(compile(requests, executables));
  // A server of others is asked for frames alone.
  const bool served = stage_.partitions.front().plan->served.has_value();
  for (auto& lane : lanes_) {
    if (!served) PENSTOCK_CHECK_OK(lane.call->warm_up(warm_up));
  }
  device::set_flush_denormals(stage_.plan->flush_denormals);
  std::size_t threads = 0;
  for (std::size_t p = 0; p < requests.size(); ++p) {
    threads += static_cast<std::size_t>(requests[p].threads - 1 + executables[p]->idle_threads());
  }
  PENSTOCK_CHECK_OK(check_threads(stage_, mask, threads));
  if (state_.options.trace) meter.keep_spans(state_.options.spans_kept);
  return {};
}

Status Worker::adopt_thread() {
  device::name_this_thread(thread_name(stage_));
  PENSTOCK_CHECK_OK(device::pin_this_thread(mask_));
  device::set_flush_denormals(stage_.plan->flush_denormals);
  return {};
}

Status Worker::compile(const std::vector<backend::CompileRequest>& requests,
                       Executables& executables) {
  executables.resize(requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r) {
    if (executables[r]) continue;
    const auto& partition = stage_.partitions[r % stage_.partitions.size()];
    const auto& device = requests[r].device;
    const auto& backend = device.is_remote() ? partition.remote : partition.backend;
    auto made = backend->compile(requests[r]);
    if (!made) {
      // Functions and other machines have the code for reasons of their own.
      engine_is_taken_ = made.error().code == Code::kFailedPrecondition && !device.is_remote() &&
                         partition.plan->backend != plan::kFunctionBackend;
      return std::move(made).error();
    }
    executables[r] = *std::move(made);
  }
  for (std::size_t p = 0; p < stage_.partitions.size(); ++p) {
    auto& partition = stage_.partitions[p];
    PENSTOCK_CHECK_OK(
        partition.ports.empty()
            ? join_ports(state_.plan, stage_, partition, *executables[p])
            : check_same_ports(partition, *executables[p], stage_.places[instance.replica]));
  }
  ability_.configure(executables);
  asynchronous_ = StageCall::goes_on_alone(stage_, executables);
  if (stage_.plan->each.empty() && !stage_.batch_sizes.empty()) {
    selection_.set_most(static_cast<FrameNumber>(stage_.batch_sizes.back()));
  }
  meter.calls = std::vector<std::atomic<std::uint64_t>>(selection_.most());
  meter.call_times = std::vector<Meter::CallTimes>(selection_.most());
  lanes_.make(choose_lanes(state_, stage_, executables, selection_.most()));
  for (auto& lane : lanes_) {
    lane.frames.reserve(selection_.most() == 1 ? 1 : 2 * selection_.most() * instance.replicas);
    lane.ready_ns.resize(selection_.most());
    PENSTOCK_CHECK_OK(open(lane));
  }
  return {};
}

Status Worker::open(Lane& lane) {
  lane.call = make_call();
  return lane.call->open(ability_.executables());
}

std::unique_ptr<StageCall> Worker::make_call() {
  const bool may_be_left = max_run_ns_ > 0 && stage_.plan->max_left_behind > 0;
  return std::make_unique<StageCall>(stage_, stage_.memories[instance.replica].get(), state_.ending,
                                     instance.parker, may_be_left);
}

}  // namespace penstock::pipeline
