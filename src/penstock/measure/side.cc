// A pipeline, ONNX Runtime and OpenVINO: which sessions are made and how their frames are timed.
#include "penstock/measure/side.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include <unistd.h>

#include "penstock/base/option_name.h"
#include "penstock/base/thread.h"
#include "penstock/device/affinity.h"
#include "penstock/measure/states.h"

namespace penstock::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLatenciesExpected = 1U << 16U;

/// Counts the frames that end after the warm-up, which is one frame at least: the first that counts
/// begins with the window.
class Window {
 public:
  explicit Window(const Round& round) : round_(round), warm_(Clock::now() + round.warm_up) {
    sample_.latencies_ns.reserve(kLatenciesExpected);
  }

  /// A frame ended at `now`. \returns whether to go on.
  bool add(Clock::time_point now, std::chrono::nanoseconds latency) {
    if (!begin_) {
      if (now >= warm_) begin_ = last_ = now;
      return true;
    }
    last_ = now;
    sample_.latencies_ns.push_back(static_cast<float>(latency.count()));
    return now < *begin_ + round_.measured && !round_.stopped();
  }

  Sample finish() && {
    const auto seconds = std::chrono::duration<double>(last_ - *begin_).count();
    sample_.frames_per_second =
        seconds > 0 ? static_cast<double>(sample_.latencies_ns.size()) / seconds : 0;
    return std::move(sample_);
  }

 private:
  const Round& round_;
  Clock::time_point warm_, last_;
  std::optional<Clock::time_point> begin_;
  Sample sample_;
};

/// A pipeline hands frames over in bursts, since it wakes a sleeper for several at once. So a round
/// begins and ends when all that is done has been popped: then no burst is cut in two.
class PipelineSide final : public Side {
 public:
  PipelineSide(pipeline::Pipeline& pipeline, const Ring& ring, int in_flight, std::string name)
      : pipeline_(pipeline),
        ring_(ring),
        in_flight_(in_flight),
        streams_(static_cast<std::size_t>(
            std::clamp(pipeline.plan().streams.most, 1, std::max(in_flight, 1)))),
        restarts_(have_open_states(pipeline.plan())),
        name_(std::move(name)) {}

  std::string name() const override { return name_; }
  std::string explain() const override {
    if (streams_ > 1) return concat("this pipeline, ", streams_, " streams in turn");
    return in_flight_ == 1 ? "this pipeline, one frame at a time" : "this pipeline";
  }
  int in_flight() const override { return in_flight_; }

  Result<Sample> measure(const Round& round) override {
    if (restarts_) next_ = 0;  // Others may have run frames of their own.
    Sample sample;
    sample.latencies_ns.reserve(kLatenciesExpected);
    PENSTOCK_CHECK_OK(run_until(Clock::now() + round.warm_up, round, nullptr));
    const auto begin = Clock::now();
    PENSTOCK_CHECK_OK(run_until(begin + round.measured, round, &sample.latencies_ns));
    const auto seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    sample.frames_per_second = static_cast<double>(sample.latencies_ns.size()) / seconds;
    for (; flying_ > 0; --flying_) {
      if (auto rest = pop(); !rest) return std::move(rest).error();
    }
    return sample;
  }

 private:
  /// Until `end` is past and nothing is ready to be popped, but at least one frame.
  Status run_until(Clock::time_point end, const Round& round, std::vector<float>* latencies) {
    // Where the popping thread is the slow one, something always is ready: then any end will do.
    int after_end = 0;
    for (bool first = true;; first = false) {
      const bool at_end = !first && (Clock::now() >= end || round.stopped());
      for (; flying_ < in_flight_ && (flying_ == 0 || !begins_anew()); ++flying_) {
        PENSTOCK_CHECK_OK(push());
      }
      if (at_end && ++after_end > in_flight_) return {};
      auto latency = pop(at_end ? pipeline::kNoWait : pipeline::kForever);
      if (!latency && at_end && latency.error().code == Code::kDeadlineExceeded) return {};
      if (!latency) return std::move(latency).error();
      --flying_;
      if (latencies != nullptr) latencies->push_back(static_cast<float>(latency->count()));
    }
  }

  /// With the next frame, once nothing is in flight. Sequences of states of fixed sizes run on,
  /// as an empty pipeline would cost time.
  [[nodiscard]] bool begins_anew() const {
    return restarts_ && next_ % (streams_ * ring_.size()) == 0;
  }

  Status push() {
    if (begins_anew()) PENSTOCK_CHECK_OK(pipeline_.reset_states());
    const auto& frame = ring_[next_ / streams_ % ring_.size()];
    const auto pushed = pipeline_.push(frame, pipeline::kPatient, {.stream = next_++ % streams_});
    if (pushed) return {};
    return pushed.error();
  }

  Result<std::chrono::nanoseconds> pop(std::chrono::nanoseconds timeout = pipeline::kForever) {
    PENSTOCK_TRY(const auto output, pipeline_.pop(timeout));
    if (!output) return internal_error("bench: the pipeline ended");
    if (!output->ok()) return output->error();
    return output->latency();
  }

  pipeline::Pipeline& pipeline_;
  const Ring& ring_;
  int in_flight_;
  const std::size_t streams_;
  const bool restarts_;
  std::string name_;
  int flying_ = 0;
  std::size_t next_ = 0;
};

/// A model with the ring's tensors in the order of its inputs.
struct Session {
  backend::PlainModel model;
  std::vector<std::vector<const Tensor*>> ring;
  States states;
  std::vector<std::pair<std::size_t, std::size_t>> reads;  ///< Input of the model, state.
  std::vector<std::size_t> writes;                         ///< Output of the model, by state.

  static Result<Session> create(backend::Backend& backend, const backend::CompileRequest& compile,
                                const PlainRequest& request) {
    PENSTOCK_TRY(auto model, backend::PlainModel::create(backend, compile));
    return create(std::move(model), request);
  }

  static Result<Session> create(backend::PlainModel model, const PlainRequest& request) {
    const auto& plan = request.package->plan;
    PENSTOCK_TRY(const auto positions, match_inputs(model, plan));
    Session session{std::move(model), {}, {}, {}, {}};
    PENSTOCK_TRY(session.states, States::create(plan, request.package->folder));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] >= plan.inputs.size()) {
        session.reads.emplace_back(i, positions[i] - plan.inputs.size());
      }
    }
    for (const auto& frame : *request.ring) {
      auto& inputs = session.ring.emplace_back();
      for (const auto i : positions) inputs.push_back(i < frame.size() ? &frame[i] : nullptr);
    }
    const auto outputs = session.model.outputs();
    for (const auto& state : plan.states) {
      const auto found = std::ranges::find(outputs, state.from, &backend::Port::name);
      if (found == outputs.end()) {
        return invalid_argument("expected an output '", state.from, "', the state of input '",
                                state.to, "', found none");
      }
      session.writes.push_back(static_cast<std::size_t>(found - outputs.begin()));
    }
    // A state is read while the next one is written: then each run has outputs of its own.
    if (plan.states.empty()) {
      PENSTOCK_CHECK_OK(session.model.bind_outputs(session.ring));
    }
    return session;
  }

  /// The inputs of a frame of the ring. They hold until the next call.
  std::span<const Tensor* const> inputs_of(std::size_t number) {
    if (number % ring.size() == 0) states.begin_sequence();
    auto& inputs = ring[number % ring.size()];
    for (const auto& [input, state] : reads) inputs[input] = &states.value(state);
    return inputs;
  }

  /// After each frame, once it is computed.
  void keep_states() {
    if (writes.empty()) return;
    auto values = model.take_values();
    for (std::size_t i = 0; i < writes.size(); ++i) states.set(i, values[writes[i]]);
  }

  Status run_one(std::size_t number = 0) {
    PENSTOCK_CHECK_OK(model.run(inputs_of(number)));
    keep_states();
    return {};
  }

  Result<Sample> measure(const Round& round) {
    Window window(round);
    auto before = Clock::now();
    for (std::size_t next = 0;; ++next) {
      PENSTOCK_CHECK_OK(run_one(next));
      const auto now = Clock::now();
      if (!window.add(now, now - before)) break;
      before = now;
    }
    return std::move(window).finish();
  }
};

/// A way that has so many frames on their way at once.
Status check_in_sequence(const PlainRequest& request, std::size_t at_once) {
  if (request.package->plan.states.empty() || at_once == 1) return {};
  return make_error(Code::kFailedPrecondition, "it runs ", at_once,
                    " frames at once, and cannot hand a state from each to the next");
}

backend::CompileRequest compile_request(const PlainRequest& request) {
  backend::CompileRequest compile;
  compile.name = "onnxruntime";
  compile.file = request.file;
  compile.device.cpus = request.cpus;
  compile.custom_ops = request.custom_ops;
  return compile;
}

class DefaultSide final : public Side {
 public:
  explicit DefaultSide(Session session) : session_(std::move(session)) {}
  std::string name() const override { return "onnxruntime"; }
  std::string explain() const override { return "one session, its default threads"; }
  int in_flight() const override { return 1; }
  Result<Sample> measure(const Round& round) override { return session_.measure(round); }

 private:
  Session session_;
};

/// Several sessions, each driven by a thread of its own: the next frame of each begins as soon as
/// the last one has ended, whatever the others do.
class SessionsSide final : public Side {
 public:
  /// \pre  a CPU for each session, where its thread stays; or none
  SessionsSide(std::vector<Session> sessions, std::vector<int> cpus, std::string name,
               std::string explain)
      : sessions_(std::move(sessions)),
        cpus_(std::move(cpus)),
        name_(std::move(name)),
        explain_(std::move(explain)) {}

  std::string name() const override { return name_; }
  std::string explain() const override { return explain_; }
  int in_flight() const override { return static_cast<int>(sessions_.size()); }

  // Who has counted its frames goes on until all have: none may count frames that ran alone, which
  // on cores that share caches or a clock are faster.
  Result<Sample> measure(const Round& round) override {
    std::atomic<std::size_t> counting = sessions_.size();
    std::vector<Result<Sample>> samples(sessions_.size(), Sample());
    std::vector<std::thread> threads(sessions_.size());
    Status started;
    for (std::size_t i = 0; i < sessions_.size() && started; ++i) {
      started = start_thread(threads[i],
                             [&, i] { samples[i] = measure_beside_others(i, round, counting); });
      // Those that run do not wait for those that never will.
      if (!started) counting.fetch_sub(sessions_.size() - i);
    }
    for (auto& thread : threads) {
      if (thread.joinable()) thread.join();
    }
    PENSTOCK_CHECK_OK(std::move(started));
    Sample total;
    for (auto& one : samples) {
      PENSTOCK_TRY(const auto sample, std::move(one));
      total.frames_per_second += sample.frames_per_second;
      auto& latencies = total.latencies_ns;
      latencies.insert(latencies.end(), sample.latencies_ns.begin(), sample.latencies_ns.end());
    }
    return total;
  }

 private:
  Result<Sample> measure_beside_others(std::size_t i, const Round& round,
                                       std::atomic<std::size_t>& counting) {
    auto sample = measure_one(i, round);
    for (counting.fetch_sub(1); sample && counting.load() > 0;) {
      if (auto ran = sessions_[i].run_one(); !ran) return std::move(ran).error();
    }
    return sample;
  }

  /// On a bare thread: what is thrown here would end the process.
  Result<Sample> measure_one(std::size_t i, const Round& round) {
    try {
      if (!cpus_.empty()) PENSTOCK_CHECK_OK(device::pin_this_thread({cpus_[i]}));
      return sessions_[i].measure(round);
    } catch (const std::bad_alloc&) {
      return make_error(Code::kResourceExhausted, "out of memory");
    }
  }

  std::vector<Session> sessions_;
  std::vector<int> cpus_;
  std::string name_, explain_;
};

}  // namespace

std::unique_ptr<Side> pipeline_side(pipeline::Pipeline& pipeline, const Ring& ring, int in_flight,
                                    std::string name) {
  return std::make_unique<PipelineSide>(pipeline, ring, in_flight, std::move(name));
}

Result<std::unique_ptr<Side>> default_side(backend::Backend& backend, const PlainRequest& request) {
  auto compile = compile_request(request);
  compile.threads = static_cast<int>(request.cpus.size());
  // Its own choice is a thread for each core of the machine, also where the process may use fewer.
  if (request.own_default && std::cmp_equal(request.cpus.size(), ::sysconf(_SC_NPROCESSORS_ONLN))) {
    compile.device.cpus.clear();
    compile.options["intra_op_num_threads"] = "0";
  }
  PENSTOCK_TRY(auto session, Session::create(backend, compile, request));
  return std::unique_ptr<Side>(std::make_unique<DefaultSide>(std::move(session)));
}

Result<std::unique_ptr<Side>> per_core_side(backend::Backend& backend, const PlainRequest& request,
                                            const std::string& engine) {
  PENSTOCK_CHECK_OK(check_in_sequence(request, request.cpus.size()));
  auto compile = compile_request(request);
  compile.name = engine;
  std::vector<Session> sessions;
  for (std::size_t i = 0; i < request.cpus.size(); ++i) {
    compile.device.cpus = {request.cpus[i]};
    PENSTOCK_TRY(auto session, Session::create(backend, compile, request));
    sessions.push_back(std::move(session));
  }
  return std::unique_ptr<Side>(std::make_unique<SessionsSide>(
      std::move(sessions), request.cpus, engine + "-per-core",
      engine == "onnxruntime" ? "a session of one thread on each core"
                              : "a model of one thread on each core, one request at a time"));
}

Result<std::unique_ptr<Side>> hint_side(backend::Backend& backend, const PlainRequest& request,
                                        const std::string& hint) {
  auto compile = compile_request(request);
  compile.name = "openvino";
  compile.threads = static_cast<int>(request.cpus.size());
  compile.options["PERFORMANCE_HINT"] = hint;
  // Its own choice is all CPUs that the process may use, whatever the calling thread may.
  if (!request.own_default) {
    compile.options["INFERENCE_NUM_THREADS"] = std::to_string(request.cpus.size());
  }
  PENSTOCK_TRY(auto compiled, backend.compile(compile));
  const std::shared_ptr<backend::Executable> executable = std::move(compiled);
  const int count = std::max(executable->recommended_contexts(), 1);
  PENSTOCK_CHECK_OK(check_in_sequence(request, static_cast<std::size_t>(count)));
  std::vector<Session> requests;
  for (int i = 0; i < count; ++i) {
    PENSTOCK_TRY(auto model, backend::PlainModel::create(executable));
    PENSTOCK_TRY(auto session, Session::create(std::move(model), request));
    requests.push_back(std::move(session));
  }
  const bool latency = hint == "LATENCY";
  return std::unique_ptr<Side>(std::make_unique<SessionsSide>(
      std::move(requests), std::vector<int>(), latency ? "openvino-latency" : "openvino-throughput",
      concat("its ", latency ? "latency" : "throughput", " hint, f32")));
}

PlainSides make_plain_sides(const PlainRequest& request, const backend::Registry& backends) {
  PlainSides made;
  const auto add = [&](const char* engine, const char* name, const auto& make) {
    request.begins(name);
    const auto backend = backends.find(engine);
    if (const auto known = request.left_out.find(name); known != request.left_out.end()) {
      made.missing.push_back({name, known->second});
    } else if (!backend) {
      made.missing.push_back({name, backend.error()});
    } else if (auto side = make(**backend)) {
      made.sides.push_back(*std::move(side));
    } else {
      made.missing.push_back({name, side.error()});
    }
  };
  add("onnxruntime", "onnxruntime", [&](auto& backend) { return default_side(backend, request); });
  add("onnxruntime", "onnxruntime-per-core",
      [&](auto& backend) { return per_core_side(backend, request, "onnxruntime"); });
  add("openvino", "openvino-latency",
      [&](auto& backend) { return hint_side(backend, request, "LATENCY"); });
  add("openvino", "openvino-throughput",
      [&](auto& backend) { return hint_side(backend, request, "THROUGHPUT"); });
  add("openvino", "openvino-per-core",
      [&](auto& backend) { return per_core_side(backend, request, "openvino"); });
  return made;
}

Result<std::vector<std::size_t>> match_inputs(const backend::PlainModel& model,
                                              const plan::Plan& plan) {
  std::vector<std::size_t> positions;
  for (const auto& port : model.inputs()) {
    const auto state = std::ranges::find(plan.states, port.name, &plan::StateEdge::to);
    if (state != plan.states.end()) {
      positions.push_back(plan.inputs.size() +
                          static_cast<std::size_t>(state - plan.states.begin()));
      continue;
    }
    const auto found = std::ranges::find(plan.inputs, port.name, &plan::TensorInfo::name);
    if (found == plan.inputs.end()) {
      return invalid_argument(OptionName::kModel, ": its input '", port.name,
                              "' is none of the package's; expected the model that the package "
                              "was made from");
    }
    positions.push_back(static_cast<std::size_t>(found - plan.inputs.begin()));
  }
  return positions;
}

}  // namespace penstock::measure
