// penstock run: frames through a pipeline.
#include <algorithm>
#include <chrono>
#include <memory>

#include <spdlog/spdlog.h>

#include "penstock/cli/command.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/outputs.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/quantile.h"
#include "penstock/cli/source.h"
#include "penstock/cli/stream_options.h"
#include "penstock/cli/text.h"

namespace penstock::cli {
namespace {

using Clock = std::chrono::steady_clock;
using pipeline::Outcome;
using pipeline::Pipeline;

struct Options {
  SourceArguments source;
  InputArguments inputs;
  StreamArguments stream;
  std::uint64_t frames = 0;  ///< 0: as many as the files hold, or kRandomFrames.
  double rate = 0;           ///< Frames pushed a second; 0: as fast as they are taken.
  int in_flight = 0;
  std::filesystem::path output;
  std::filesystem::path trace;
  bool json = false;
};

constexpr std::uint64_t kRandomFrames = 100;
constexpr std::uint64_t kRing = 16;  ///< Random frames made before the start; then they repeat.
constexpr std::size_t kErrorsShown = 5;
constexpr auto kPatience = std::chrono::milliseconds(100);  ///< Between looks at interrupted().

struct Summary {
  std::uint64_t frames = 0, ok = 0, errors = 0, drops = 0, cancelled = 0;
  std::vector<std::string> messages;  ///< Of the first frames that failed.
  std::vector<double> latencies_ns;   ///< Of those that did not.
  double seconds = 0;
  bool interrupted = false;
  pipeline::Stats stats;
};

/// Pushes and pops from one thread until all is out.
class Stream {
 public:
  Stream(const Options& options, Pipeline& pipeline, const std::vector<FrameInputs>& ring,
         std::uint64_t frames, OutputWriter& writer)
      : options_(options),
        pipeline_(pipeline),
        ring_(ring),
        total_(frames),
        writer_(writer),
        progress_("run", "frames", frames) {}

  Result<Summary> run() {
    start_ = Clock::now();
    while (!ended_) {
      if (interrupted() && !summary_.interrupted) {
        summary_.interrupted = true;
        total_ = pushed_;
      }
      PENSTOCK_CHECK_OK(push_what_fits());
      PENSTOCK_CHECK_OK(pop_one());
    }
    summary_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    summary_.stats = pipeline_.stats();
    return std::move(summary_);
  }

 private:
  [[nodiscard]] Clock::time_point due() const {
    if (options_.rate <= 0) return start_;
    constexpr double kLongest = 1e9;  // Seconds; beyond, the clock overflows.
    return start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                        std::min(static_cast<double>(pushed_) / options_.rate, kLongest)));
  }

  Status push_what_fits() {
    while (pushed_ < total_ && due() <= Clock::now()) {
      const auto pushed = pipeline_.try_push(ring_[pushed_ % ring_.size()], pushed_);
      if (!pushed) {
        const auto& error = pushed.error();
        if (error.code == Code::kDeadlineExceeded) return {};  // Full: pop first.
        if (error.code == Code::kResourceExhausted) {
          refuse(error);
          continue;
        }
        if (error.code != Code::kCancelled) return error;
        total_ = pushed_;  // Stopped at the first error, which comes out of pop().
        break;
      }
      ++pushed_;
    }
    if (pushed_ >= total_) pipeline_.close();
    return {};
  }

  /// A frame that an edge of policy 'error' did not take: counted with the failed ones.
  void refuse(const Error& error) {
    ++pushed_;
    ++summary_.frames;
    ++summary_.errors;
    note(error);
  }

  void note(const Error& error) {
    if (summary_.messages.size() < kErrorsShown) summary_.messages.push_back(error.message);
  }

  Status pop_one() {
    std::chrono::nanoseconds patience = kPatience;
    if (pushed_ < total_ && options_.rate > 0) {
      patience = std::clamp<std::chrono::nanoseconds>(due() - Clock::now(),
                                                      std::chrono::nanoseconds::zero(), kPatience);
    }
    auto popped = pipeline_.pop(patience);
    if (!popped) {
      if (popped.error().code == Code::kDeadlineExceeded) return {};
      return popped.error();
    }
    ended_ = !popped->has_value();
    if (ended_) return {};
    return take(**popped);
  }

  Status take(const pipeline::Output& output) {
    progress_.show(++summary_.frames);
    switch (output.outcome()) {
      case Outcome::kOk:
        ++summary_.ok;
        break;
      case Outcome::kError:
        ++summary_.errors;
        break;
      case Outcome::kDropped:
        ++summary_.drops;
        break;
      case Outcome::kCancelled:
        ++summary_.cancelled;
        break;
    }
    if (!output.ok()) {
      if (output.outcome() == Outcome::kError) note(output.error());
      spdlog::debug("{}", output.error().message);
      return {};
    }
    summary_.latencies_ns.push_back(static_cast<double>(output.latency().count()));
    for (std::size_t i = 0; i < output.size(); ++i) {
      PENSTOCK_CHECK_OK(writer_.write(output.tag(), i, output[i]));
    }
    return {};
  }

  const Options& options_;
  Pipeline& pipeline_;
  const std::vector<FrameInputs>& ring_;
  std::uint64_t total_;
  std::uint64_t pushed_ = 0;
  bool ended_ = false;
  OutputWriter& writer_;
  Progress progress_;
  Clock::time_point start_;
  Summary summary_;
};

double rate_of(const Summary& summary) {
  return summary.seconds > 0 ? static_cast<double>(summary.ok) / summary.seconds : 0;
}

Json to_json(const plan::Plan& plan, Summary& summary) {
  auto& latencies = summary.latencies_ns;
  return {{"model", plan.model},
          {"frames", summary.frames},
          {"ok", summary.ok},
          {"errors", summary.errors},
          {"drops", summary.drops},
          {"cancelled", summary.cancelled},
          {"interrupted", summary.interrupted},
          {"seconds", summary.seconds},
          {"frames_per_second", rate_of(summary)},
          {"latency_ms",
           {{"p50", quantile(latencies, 0.5) / 1e6},
            {"p90", quantile(latencies, 0.9) / 1e6},
            {"p99", quantile(latencies, 0.99) / 1e6},
            {"max", quantile(latencies, 1) / 1e6}}},
          {"error_messages", summary.messages},
          {"memory_bytes", memory_json(summary.stats.memory_bytes)},
          {"stages", stages_json(plan, summary.stats)},
          {"edges", edges_json(summary.stats)}};
}

std::string to_text(const plan::Plan& plan, Summary& summary) {
  std::string text = concat("model '", plan.model, "': ", summary.frames, " frames in ",
                            number(summary.seconds, 3), " s, ", number(rate_of(summary), 1),
                            " frames a second", summary.interrupted ? " (interrupted)" : "", "\n");
  text += concat(summary.ok, " ok, ", summary.errors, " errors, ", summary.drops, " dropped, ",
                 summary.cancelled, " cancelled\n");
  auto& latencies = summary.latencies_ns;
  if (!latencies.empty()) {
    text +=
        concat("latency p50 ", duration(quantile(latencies, 0.5)), ", p90 ",
               duration(quantile(latencies, 0.9)), ", p99 ", duration(quantile(latencies, 0.99)),
               ", max ", duration(quantile(latencies, 1)), "\n");
  }
  text += concat("memory of the edges: ", memory_text(summary.stats.memory_bytes), "\n\n");
  text += stage_table(plan, summary.stats) + "\n" + edge_table(summary.stats);
  return text;
}

void apply_stream(const StreamOptions& stream, plan::Plan& plan, pipeline::Options& options) {
  for (auto& edge : plan.edges) {
    if (!stream.input_policy || edge.from != plan::kPipelineInput) continue;
    edge.policy = *stream.input_policy;
    if (edge.policy == plan::FullPolicy::kLatest) edge.capacity = 1;
  }
  options.capacity = stream.capacity.value_or(0);
  options.max_age = stream.max_age;
  options.on_error = stream.on_error;
}

Result<int> report(const Options& options, const plan::Plan& plan, Summary& summary) {
  if (options.json) {
    print_json(to_json(plan, summary));
  } else {
    print(to_text(plan, summary));
  }
  for (const auto& message : summary.messages) spdlog::error("{}", message);
  if (summary.errors > summary.messages.size()) {
    spdlog::error("and {} more frames failed", summary.errors - summary.messages.size());
  }
  if (summary.interrupted) return interrupt_code();
  return summary.errors == 0 ? kOk : kFailed;
}

Result<int> run(const Options& options) {
  PENSTOCK_TRY(const auto stream, to_stream_options(options.stream));
  const auto backends = backend::Registry::load();
  PENSTOCK_TRY(auto package, load_source(options.source, backends));
  pipeline::Options settings;
  apply_stream(stream, package.plan, settings);
  settings.in_flight = options.in_flight;
  settings.trace = !options.trace.empty();
  const auto& inputs = package.plan.inputs;
  const bool given = has_files(options.inputs);
  const std::uint64_t wanted = options.frames > 0 ? options.frames : kRandomFrames;
  PENSTOCK_TRY(const auto ring,
               given ? read_frames(inputs, options.inputs)
                     : random_frames(inputs, options.inputs, std::min(wanted, kRing)));
  const std::uint64_t frames = options.frames > 0 ? options.frames
                               : given            ? ring.size()
                                                  : kRandomFrames;
  PENSTOCK_TRY(auto writer, OutputWriter::create(options.output, package.plan.outputs, frames));
  const InterruptGuard guard;
  PENSTOCK_TRY(const auto pipeline, start_source(options.source, package, settings, backends));
  PENSTOCK_TRY(auto summary, Stream(options, *pipeline, ring, frames, writer).run());
  PENSTOCK_CHECK_OK(writer.finish());
  if (settings.trace) PENSTOCK_CHECK_OK(pipeline->write_trace(options.trace));
  return report(options, package.plan, summary);
}

constexpr const char* kFooter =
    R"(Inputs come from files or are random, the same for the same seed. A file's type is its name's ending;
a picture is resized to the input's height and width, u8 as it is or f32 scaled to 0..1. --input may
name an input several times: one value a frame. Outputs go to DIR/<name>.npy, DIR/<frame>/<name>.npy
where there are several frames, or into one .npz. A folder in which files of an earlier run would
remain is refused.

Examples:
  penstock run model.pkg --frames 1000
  penstock run model.pkg --input x=cat.png --input x=dog.png --output out
  penstock run model.onnx --inputs frames.npz --output results.npz
  penstock run model.pkg --rate 30 --policy latest --max-age 100 --trace trace.json

Exit code 1 if any frame failed; frames that a policy dropped are no failures. 130 after Ctrl-C.)";

}  // namespace

void declare_run(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<Options>();
  auto* command = add_command(
      app, "run",
      "Runs frames through a pipeline: files or random inputs in, outputs and a report out.",
      kFooter);
  add_source_options(command, options->source);
  add_input_options(command, options->inputs);
  command
      ->add_option("--frames", options->frames,
                   "How many (default: what the files hold, or 100 random ones); files repeat")
      ->check(positive_number());
  command->add_option("--output", options->output, "Where outputs go: a folder or a .npz");
  command->add_option("--rate", options->rate, "Frames pushed a second (default: as fast as taken)")
      ->check(positive_number());
  command
      ->add_option("--in-flight", options->in_flight,
                   "Most frames between push and pop (default: what the edges hold)")
      ->check(positive_number());
  add_stream_options(command, options->stream);
  command->add_option("--trace", options->trace,
                      "Write a trace of every frame for ui.perfetto.dev to this file");
  command->add_flag("--json", options->json, "Print the report as JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
