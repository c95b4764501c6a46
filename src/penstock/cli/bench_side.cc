#include "penstock/cli/bench_side.h"

#include <future>
#include <utility>

#include "penstock/cli/interrupt.h"
#include "penstock/cli/plain_model.h"
#include "penstock/pipeline/affinity.h"

namespace penstock::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLatenciesExpected = 1U << 16U;

/// Counts the frames that end between the warm-up's end and the round's.
class Window {
 public:
  explicit Window(const Round& round)
      : begin_(Clock::now() + round.warm_up), end_(begin_ + round.measured) {
    sample_.latencies_ns.reserve(kLatenciesExpected);
  }

  /// A frame ended at `now`. \returns whether to go on.
  bool add(Clock::time_point now, std::chrono::nanoseconds latency) {
    if (now < begin_) {
      first_ = now;
      return true;
    }
    ++count_;
    last_ = now;
    sample_.latencies_ns.push_back(static_cast<float>(latency.count()));
    return now < end_ && !interrupted();
  }

  Sample finish() && {
    // From the end of the last frame that did not count to that of the last that did.
    const auto from = first_ == Clock::time_point() ? begin_ : first_;
    const auto seconds = std::chrono::duration<double>(last_ - from).count();
    sample_.frames_per_second = seconds > 0 ? static_cast<double>(count_) / seconds : 0;
    return std::move(sample_);
  }

 private:
  Clock::time_point begin_, end_, first_, last_;
  std::uint64_t count_ = 0;
  Sample sample_;
};

/// A pipeline hands frames over in bursts, since it wakes a sleeper for several at once. So a round
/// begins and ends when all that is done has been popped: then no burst is cut in two.
class PipelineSide final : public Side {
 public:
  PipelineSide(pipeline::Pipeline& pipeline, const Ring& ring, int in_flight)
      : pipeline_(pipeline), ring_(ring), in_flight_(in_flight) {}

  std::string name() const override { return "penstock"; }
  std::string explain() const override { return "this pipeline"; }
  int in_flight() const override { return in_flight_; }

  Result<Sample> measure(const Round& round) override {
    Sample sample;
    sample.latencies_ns.reserve(kLatenciesExpected);
    PENSTOCK_CHECK_OK(run_until(Clock::now() + round.warm_up, nullptr));
    const auto begin = Clock::now();
    PENSTOCK_CHECK_OK(run_until(begin + round.measured, &sample.latencies_ns));
    const auto seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    sample.frames_per_second = static_cast<double>(sample.latencies_ns.size()) / seconds;
    for (; flying_ > 0; --flying_) {
      if (auto rest = pop(); !rest) return std::move(rest).error();
    }
    return sample;
  }

 private:
  /// Until `end` is past and nothing is ready to be popped, but at least one frame.
  Status run_until(Clock::time_point end, std::vector<float>* latencies) {
    // Where the popping thread is the slow one, something always is ready: then any end will do.
    int after_end = 0;
    for (bool first = true;; first = false) {
      const bool at_end = !first && (Clock::now() >= end || interrupted());
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
  int flying_ = 0;
  std::size_t next_ = 0;
};

/// A model with the ring's tensors in the order of its inputs.
struct Session {
  PlainModel model;
  std::vector<std::vector<const Tensor*>> ring;

  static Result<Session> create(backend::Backend& backend, const backend::CompileRequest& compile,
                                const PlainRequest& request) {
    PENSTOCK_TRY(auto model, PlainModel::create(backend, compile));
    PENSTOCK_TRY(const auto positions, match_inputs(model, request.plan->inputs));
    Session session{std::move(model), {}};
    for (const auto& frame : *request.ring) {
      auto& inputs = session.ring.emplace_back();
      for (const auto i : positions) inputs.push_back(&frame[i]);
    }
    PENSTOCK_CHECK_OK(session.model.bind_outputs(session.ring.front()));
    return session;
  }

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

  Result<Sample> measure(const Round& round) override {
    std::vector<std::future<Result<Sample>>> runs;
    runs.reserve(sessions_.size());
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      runs.push_back(std::async(std::launch::async, [this, i, &round]() -> Result<Sample> {
        PENSTOCK_CHECK_OK(pipeline::pin_this_thread({cpus_[i]}));
        return sessions_[i].measure(round);
      }));
    }
    Result<Sample> total = Sample();
    for (auto& run : runs) {
      auto sample = run.get();
      if (!total) continue;
      if (!sample) {
        total = std::move(sample).error();
        continue;
      }
      total->frames_per_second += sample->frames_per_second;
      auto& latencies = total->latencies_ns;
      latencies.insert(latencies.end(), sample->latencies_ns.begin(), sample->latencies_ns.end());
    }
    return total;
  }

 private:
  std::vector<Session> sessions_;
  std::vector<int> cpus_;
};

}  // namespace

std::unique_ptr<Side> pipeline_side(pipeline::Pipeline& pipeline, const Ring& ring, int in_flight) {
  return std::make_unique<PipelineSide>(pipeline, ring, in_flight);
}

Result<std::unique_ptr<Side>> default_side(backend::Backend& backend, const PlainRequest& request) {
  auto compile = compile_request(request);
  compile.threads = static_cast<int>(request.cpus.size());
  if (request.own_default) compile.options["intra_op_num_threads"] = "0";
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

}  // namespace penstock::cli
