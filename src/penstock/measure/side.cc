#include "penstock/measure/side.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include <unistd.h>

#include "penstock/device/affinity.h"
#include "penstock/pipeline/thread.h"

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
      : pipeline_(pipeline), ring_(ring), in_flight_(in_flight), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  std::string explain() const override {
    return in_flight_ == 1 ? "this pipeline, one frame at a time" : "this pipeline";
  }
  int in_flight() const override { return in_flight_; }

  Result<Sample> measure(const Round& round) override {
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
      for (; flying_ < in_flight_; ++flying_) PENSTOCK_CHECK_OK(push());
      if (at_end && ++after_end > in_flight_) return {};
      auto latency = pop(at_end ? pipeline::kNoWait : pipeline::kForever);
      if (!latency && at_end && latency.error().code == Code::kDeadlineExceeded) return {};
      if (!latency) return std::move(latency).error();
      --flying_;
      if (latencies != nullptr) latencies->push_back(static_cast<float>(latency->count()));
    }
  }

  Status push() {
    const auto pushed = pipeline_.push(ring_[next_++ % ring_.size()]);
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
  std::string name_;
  int flying_ = 0;
  std::size_t next_ = 0;
};

/// A model with the ring's tensors in the order of its inputs.
struct Session {
  backend::PlainModel model;
  std::vector<std::vector<const Tensor*>> ring;

  static Result<Session> create(backend::Backend& backend, const backend::CompileRequest& compile,
                                const PlainRequest& request) {
    PENSTOCK_TRY(auto model, backend::PlainModel::create(backend, compile));
    return create(std::move(model), request);
  }

  static Result<Session> create(backend::PlainModel model, const PlainRequest& request) {
    PENSTOCK_TRY(const auto positions, match_inputs(model, request.plan->inputs));
    Session session{std::move(model), {}};
    for (const auto& frame : *request.ring) {
      auto& inputs = session.ring.emplace_back();
      for (const auto i : positions) inputs.push_back(&frame[i]);
    }
    PENSTOCK_CHECK_OK(session.model.bind_outputs(session.ring.front()));
    return session;
  }

  Status run_one() { return model.run(ring.front()); }

  Result<Sample> measure(const Round& round) {
    Window window(round);
    auto before = Clock::now();
    for (std::size_t next = 0;; ++next) {
      PENSTOCK_CHECK_OK(model.run(ring[next % ring.size()]));
      const auto now = Clock::now();
      if (!window.add(now, now - before)) break;
      before = now;
    }
    return std::move(window).finish();
  }
};

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

class PerCoreSide final : public Side {
 public:
  PerCoreSide(std::vector<Session> sessions, std::vector<int> cpus)
      : sessions_(std::move(sessions)), cpus_(std::move(cpus)) {}

  std::string name() const override { return "onnxruntime-per-core"; }
  std::string explain() const override { return "a session of one thread on each core"; }
  int in_flight() const override { return static_cast<int>(cpus_.size()); }

  // Who has counted its frames goes on until all have: none may count frames that ran alone, which
  // on cores that share caches or a clock are faster.
  Result<Sample> measure(const Round& round) override {
    std::atomic<std::size_t> counting = sessions_.size();
    std::vector<Result<Sample>> samples(sessions_.size(), Sample());
    std::vector<std::thread> threads(sessions_.size());
    Status started;
    for (std::size_t i = 0; i < sessions_.size() && started; ++i) {
      started = pipeline::start_thread(
          threads[i], [&, i] { samples[i] = measure_beside_others(i, round, counting); });
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
      PENSTOCK_CHECK_OK(device::pin_this_thread({cpus_[i]}));
      return sessions_[i].measure(round);
    } catch (const std::bad_alloc&) {
      return make_error(Code::kResourceExhausted, "out of memory");
    }
  }

  std::vector<Session> sessions_;
  std::vector<int> cpus_;
};

/// Several requests of one compiled model, started and waited for in turn from the calling thread.
class RequestsSide final : public Side {
 public:
  RequestsSide(std::vector<Session> requests, std::string name, std::string explain)
      : requests_(std::move(requests)), name_(std::move(name)), explain_(std::move(explain)) {}

  std::string name() const override { return name_; }
  std::string explain() const override { return explain_; }
  int in_flight() const override { return static_cast<int>(requests_.size()); }

  Result<Sample> measure(const Round& round) override {
    Window window(round);
    std::vector<Clock::time_point> begun(requests_.size());
    std::size_t next = 0;
    const auto start = [&](std::size_t i) {
      begun[i] = Clock::now();
      return requests_[i].model.start(requests_[i].ring[next++ % requests_[i].ring.size()]);
    };
    Status status;
    std::size_t flying = 0;
    bool going = true;
    for (; flying < requests_.size() && status; ++flying) status = start(flying);
    for (std::size_t i = 0; flying > 0; i = (i + 1) % requests_.size()) {
      auto waited = requests_[i].model.wait();
      --flying;
      if (!waited && status) status = std::move(waited);
      const auto now = Clock::now();
      if (going && status) going = window.add(now, now - begun[i]);
      if (!going || !status) continue;
      status = start(i);
      ++flying;
    }
    if (!status) return std::move(status).error();
    return std::move(window).finish();
  }

 private:
  std::vector<Session> requests_;
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

Result<std::unique_ptr<Side>> per_core_side(backend::Backend& backend,
                                            const PlainRequest& request) {
  auto compile = compile_request(request);
  std::vector<Session> sessions;
  for (std::size_t i = 0; i < request.cpus.size(); ++i) {
    compile.device.cpus = {request.cpus[i]};
    PENSTOCK_TRY(auto session, Session::create(backend, compile, request));
    sessions.push_back(std::move(session));
  }
  return std::unique_ptr<Side>(std::make_unique<PerCoreSide>(std::move(sessions), request.cpus));
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
  std::vector<Session> requests;
  for (int i = 0; i < std::max(executable->recommended_contexts(), 1); ++i) {
    PENSTOCK_TRY(auto model, backend::PlainModel::create(executable));
    PENSTOCK_TRY(auto session, Session::create(std::move(model), request));
    requests.push_back(std::move(session));
  }
  const bool latency = hint == "LATENCY";
  return std::unique_ptr<Side>(std::make_unique<RequestsSide>(
      std::move(requests), latency ? "openvino-latency" : "openvino-throughput",
      concat("its ", latency ? "latency" : "throughput", " hint, f32")));
}

PlainSides make_plain_sides(const PlainRequest& request, const backend::Registry& backends) {
  PlainSides made;
  const auto add = [&](const char* engine, const char* name, const auto& make) {
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
      [&](auto& backend) { return per_core_side(backend, request); });
  add("openvino", "openvino-latency",
      [&](auto& backend) { return hint_side(backend, request, "LATENCY"); });
  add("openvino", "openvino-throughput",
      [&](auto& backend) { return hint_side(backend, request, "THROUGHPUT"); });
  return made;
}

Result<std::vector<std::size_t>> match_inputs(const backend::PlainModel& model,
                                              const std::vector<plan::TensorInfo>& inputs) {
  std::vector<std::size_t> positions;
  for (const auto& port : model.inputs()) {
    const auto found = std::ranges::find(inputs, port.name, &plan::TensorInfo::name);
    if (found == inputs.end()) {
      return invalid_argument("--model: its input '", port.name,
                              "' is none of the package's; expected the model that the package was "
                              "made from");
    }
    positions.push_back(static_cast<std::size_t>(found - inputs.begin()));
  }
  return positions;
}

}  // namespace penstock::measure
