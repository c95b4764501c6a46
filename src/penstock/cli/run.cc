// penstock run: frames through a pipeline.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include <spdlog/spdlog.h>

#include "penstock/base/thread.h"
#include "penstock/base/words.h"
#include "penstock/cli/command.h"
#include "penstock/cli/inputs.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/outputs.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/progress.h"
#include "penstock/cli/source.h"
#include "penstock/cli/stream_options.h"
#include "penstock/cli/text.h"
#include "penstock/cli/tuning.h"
#include "penstock/cli/watching.h"
#include "penstock/frames/source.h"
#include "penstock/pipeline/histogram.h"
#include "penstock/plan/bound.h"

namespace penstock::cli {
namespace {

using Clock = std::chrono::steady_clock;
using pipeline::Outcome;
using pipeline::Pipeline;

struct RunOptions {
  SourceArguments source;
  frames::SourceOptions inputs;
  StreamArguments stream;
  WatchArguments watch;
  double tune = 0;
  std::uint64_t frames = 0;  ///< 0: as many as the files hold, or kRandomFrames.
  double rate = 0;           ///< Frames pushed a second; 0: as fast as they are taken.
  int in_flight = 0;
  std::filesystem::path output;
  std::filesystem::path trace;
  bool json = false;
};

constexpr std::uint64_t kRandomFrames = 100;
constexpr std::uint64_t kRandomRing =
    16;  ///< Random frames made before the start; then they repeat.
constexpr std::size_t kErrorsShown = 5;
constexpr auto kPatience = std::chrono::milliseconds(100);  ///< Between looks at interrupted().
constexpr int kFutile = 10;  ///< Such waits after an interrupt that no frame ends: it is told.
/// Between looks at what may come in and what may come out, where both are waited for.
constexpr std::chrono::nanoseconds kLivePoll = std::chrono::milliseconds(1);

struct Summary {
  std::uint64_t frames = 0, ok = 0, errors = 0, drops = 0, cancelled = 0;
  std::vector<Error> failures;  ///< Of the first frames that failed.
  pipeline::Quantiles latency;  ///< Of those that did not.
  double seconds = 0;
  bool interrupted = false;
  std::optional<Error> input_error;  ///< Why the input ended early.
  pipeline::Stats stats;
};

/// Reads the source again where SIGHUP asks for it, beside the stream, and lets it take the place
/// of what runs.
class Reloader {
 public:
  using Reload = std::function<Status()>;
  explicit Reloader(Reload reload) : reload_(std::move(reload)) {}
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;
  ~Reloader() {
    if (running_.valid()) tell(running_.get());
    if (take_reload()) tell(make_error(Code::kCancelled, "no frame is left for it"));
  }

  /// Looks whether it is asked for, and tells how the one before went. To be called often.
  void look() {
    if (running_.valid()) {
      if (running_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
      tell(running_.get());
    }
    if (!take_reload()) return;
    auto started = start_async(reload_);
    if (!started) return tell(started.error());
    running_ = *std::move(started);
  }

 private:
  static void tell(const Status& reloaded) {
    const auto how =
        reloaded ? std::string("replaced") : "not replaced: " + reloaded.error().message();
    print(concat("penstock: SIGHUP: ", how, "\n"), stderr);
  }

  const Reload reload_;
  std::future<Status> running_;
};

/// Pushes and pops from one thread until all is out.
class Stream {
 public:
  Stream(const RunOptions& options, Pipeline& pipeline, frames::Source& source,
         std::optional<std::uint64_t> frames, OutputWriter& writer, Reloader& reloader)
      : options_(options),
        pipeline_(pipeline),
        reloader_(reloader),
        source_(source),
        total_(frames.value_or(UINT64_MAX)),
        writer_(writer),
        skips_unreadable_(pipeline.plan().on_error == plan::OnError::kDeliver &&
                          !source.is_live() && source.count() > 1),
        progress_("run", "frames", frames) {}

  Result<Summary> run() {
    start_ = Clock::now();
    while (!ended_) {
      if (interrupted() && !summary_.interrupted) {
        summary_.interrupted = true;
        total_ = pushed_;
      }
      reloader_.look();
      PENSTOCK_CHECK_OK(push_what_fits());
      PENSTOCK_CHECK_OK(pop_one());
    }
    summary_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    summary_.latency = pipeline::Histogram::quantiles({latencies_.get()});
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
    while (pushed_ < total_ && due() <= Clock::now() && fetch()) {
      if (unread_) {
        if (!idle()) {  // Its line comes behind those of the frames before.
          if (last_) pipeline_.hurry(*last_);
          return {};
        }
        PENSTOCK_CHECK_OK(refuse(*std::exchange(unread_, std::nullopt)));
        continue;
      }
      const auto pushed =
          pipeline_.try_push(*next_, {.tag = pushed_, .stream = source_.stream_of(pushed_)});
      if (!pushed) {
        const auto& error = pushed.error();
        if (error.code == Code::kDeadlineExceeded) return {};  // Full: pop first.
        if (error.code == Code::kResourceExhausted) {
          PENSTOCK_CHECK_OK(refuse(error));
          continue;
        }
        if (error.code != Code::kCancelled) return error;
        total_ = pushed_;  // Stopped at the first error, which comes out of pop().
        break;
      }
      last_ = *pushed;
      count_pushed();
    }
    if (pushed_ >= total_) pipeline_.close();
    return {};
  }

  /// Nothing is to come out before more goes in.
  [[nodiscard]] bool idle() const { return pushed_ == summary_.frames; }

  /// Whether there is a frame to push, or one that cannot be read. Where such a one is no error of
  /// a frame, it ends the stream behind those before.
  bool fetch() {
    if (next_ || unread_) return true;
    auto frame = source_.read(pushed_, idle() ? kPatience : kPatience.zero());
    if (frame) {
      next_ = *std::move(frame);
    } else if (skips_unreadable_) {
      unread_ = std::move(frame).error();
    } else {
      summary_.input_error = std::move(frame).error();
    }
    if (summary_.input_error || source_.ended()) total_ = pushed_;
    return next_ || unread_;
  }

  void count_pushed() {
    ++pushed_;
    next_.reset();
  }

  /// A frame that could not be read, or that an edge of policy 'error' did not take: counted with
  /// the failed ones.
  Status refuse(const Error& error) {
    const auto frame = pushed_;
    count_pushed();
    ++summary_.frames;
    ++summary_.errors;
    note(error);
    return writer_.write_error(frame, error, source_.files(frame), source_.stream_of(frame));
  }

  void note(const Error& error) {
    if (summary_.failures.size() < kErrorsShown) summary_.failures.push_back(error);
  }

  /// How long a pop may wait: until there is something to push, as far as that is known.
  [[nodiscard]] std::chrono::nanoseconds patience() const {
    if (pushed_ >= total_) return kPatience;
    const auto now = Clock::now();
    if (due() > now) return std::min<std::chrono::nanoseconds>(due() - now, kPatience);
    if (next_ || unread_) return kPatience;  // There is no room for it, or not yet.
    return source_.is_live() && !idle() ? kLivePoll : std::chrono::nanoseconds::zero();
  }

  Status pop_one() {
    auto popped = pipeline_.pop(patience());
    if (!popped) {
      if (popped.error().code != Code::kDeadlineExceeded) return popped.error();
      if (summary_.interrupted && ++futile_ == kFutile) {
        spdlog::warn(
            "interrupted, but {} in flight did not come out: a call may hang; "
            "interrupt again to end at once, and --max-run names it",
            counted(pushed_ - summary_.frames, "frame"));
      }
      return {};
    }
    futile_ = 0;
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
    const auto files = source_.files(output.tag());
    if (output.ok()) {
      latencies_->record(output.latency().count());
      return writer_.write(output, files);
    }
    const Error error = in_numbers_of_run(output);
    if (output.outcome() == Outcome::kError) note(error);
    spdlog::debug("{}", error.message());
    return writer_.write_error(output.tag(), error, files, output.stream());
  }

  /// The pipeline does not count the frames that were never pushed: whoever looks for the file
  /// needs their number in the run.
  static Error in_numbers_of_run(const pipeline::Output& output) {
    Error error = output.error();
    auto* const frame = error.find(Where::kFrame);
    if (frame != nullptr && frame->number == output.number()) frame->number = output.tag();
    return error;
  }

  const RunOptions& options_;
  Pipeline& pipeline_;
  Reloader& reloader_;
  frames::Source& source_;
  std::optional<frames::Frame> next_;  ///< Read, and not pushed yet.
  std::optional<Error> unread_;        ///< Why the next one cannot be read, and is not to come.
  std::uint64_t total_;
  std::uint64_t pushed_ = 0;
  std::optional<pipeline::FrameNumber> last_;  ///< That the pipeline took.
  bool ended_ = false;
  int futile_ = 0;
  OutputWriter& writer_;
  const bool skips_unreadable_;  ///< A file that cannot be read is an error of its frame alone.
  Progress progress_;
  Clock::time_point start_;
  /// Not each one is kept: a stream may go on for days.
  std::unique_ptr<pipeline::Histogram> latencies_ = std::make_unique<pipeline::Histogram>();
  Summary summary_;
};

double rate_of(const Summary& summary) {
  return summary.seconds > 0 ? static_cast<double>(summary.ok) / summary.seconds : 0;
}

/// The frames that each reading of the package took; those that were never pushed are of none.
Json packages_json(const pipeline::Stats& stats) {
  Json packages = Json::array();
  for (const auto& [label, frames] : stats.plans) {
    packages.push_back({{"read", label}, {"frames", frames}});
  }
  return packages;
}

std::string packages_text(const pipeline::Stats& stats) {
  if (stats.plans.size() < 2) return {};
  const auto text = [](const pipeline::PlanStats& of) {
    return concat(of.frames, " as read ", of.label);
  };
  return concat("frames by package: ", join(stats.plans, ", ", text),
                "; the tables are of the last one\n");
}

Json to_json(const plan::Plan& plan, const Summary& summary) {
  Json failures = Json::array();
  for (const auto& failure : summary.failures) failures.push_back(error_json(failure));
  if (summary.input_error) failures.push_back(error_json(*summary.input_error));
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
           {{"p50", summary.latency.p50_ns / 1e6},
            {"p90", summary.latency.p90_ns / 1e6},
            {"p99", summary.latency.p99_ns / 1e6},
            {"max", summary.latency.max_ns / 1e6}}},
          {"failures", std::move(failures)},
          {"packages", packages_json(summary.stats)},
          {"memory_bytes", memory_json(summary.stats.memory_bytes)},
          {"stages", stages_json(summary.stats)},
          {"edges", edges_json(summary.stats)}};
}

std::string to_text(const plan::Plan& plan, const Summary& summary) {
  std::string text = concat("model '", plan.model, "': ", counted(summary.frames, "frame"), " in ",
                            duration(summary.seconds * 1e9), ", ", number(rate_of(summary), 1),
                            " frames a second", summary.interrupted ? " (interrupted)" : "", "\n");
  text += concat(summary.ok, " ok, ", counted(summary.errors, "error"), ", ", summary.drops,
                 " dropped, ", summary.cancelled, " cancelled\n");
  text += packages_text(summary.stats);
  if (const auto& latency = summary.latency; latency.count > 0) {
    text += concat("latency p50 ", duration(latency.p50_ns), ", p90 ", duration(latency.p90_ns),
                   ", p99 ", duration(latency.p99_ns), ", max ", duration(latency.max_ns), "\n");
  }
  text += concat("memory of the edges: ", memory_text(summary.stats.memory_bytes), "\n\n");
  text += stage_table(summary.stats) + "\n" + edge_table(summary.stats);
  return text;
}

/// What to do about a frame that failed, with what the source gives for it once more.
std::string advice_on(const Error& failure, const RunOptions& options, const plan::Plan& plan,
                      frames::Source& source) {
  const auto* const place = failure.find(Where::kFrame);
  std::optional<frames::Frame> frame;
  if (place != nullptr && frames::has_files(options.inputs) && !source.is_live()) {
    if (auto again = source.read(place->number, kPatience)) frame = *std::move(again);
  }
  return advice_on_frame(failure, options.inputs, plan.inputs,
                         {plan::names_of_bound(plan.bound_inputs), source.random_inputs()},
                         frame ? &*frame : nullptr);
}

Result<int> report(const RunOptions& options, const plan::Plan& plan, frames::Source& source,
                   const Summary& summary) {
  std::FILE* out = options.output == "-" ? stderr : stdout;
  if (options.json) {
    print_json(to_json(plan, summary), out);
  } else {
    print(to_text(plan, summary), out);
  }
  for (const auto& failure : summary.failures) {
    const bool last = &failure == &summary.failures.back();
    spdlog::error("{}{}", failure.message(), last ? advice_on(failure, options, plan, source) : "");
  }
  if (summary.errors > summary.failures.size()) {
    spdlog::error("and {} more frames failed", summary.errors - summary.failures.size());
  }
  if (summary.input_error) spdlog::error("{}", summary.input_error->message());
  if (summary.interrupted) return interrupt_code();
  if (summary.frames == 0 && !summary.input_error) {  // A file has one frame at least.
    spdlog::warn(
        "standard input ended before the first frame: look at the program before the pipe");
  }
  return summary.errors == 0 && !summary.input_error ? kOk : kFailed;
}

/// Of two files of one name the later would be all that is left.
Status check_apart(const RunOptions& options) {
  const std::pair<const char*, const std::filesystem::path*> files[] = {
      {"--output", &options.output},
      {"--trace", &options.trace},
      {"--record", &options.watch.record}};
  for (const auto& [option, file] : files) {
    for (const auto& [other, same] : files) {
      if (file == same || file->empty() || *file != *same) continue;
      return invalid_argument(option, " and ", other, ": both name '", file->string(),
                              "'; give each a name of its own");
    }
  }
  return {};
}

Status write_trace(const Pipeline& pipeline, const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto lost, pipeline.write_trace(file));
  if (lost == 0) return {};
  spdlog::warn(
      "trace '{}': holds each stage instance's last {} frames; {} spans of earlier ones are lost; "
      "give fewer --frames to have all",
      file.string(), pipeline::kSpansKept, lost);
  return {};
}

/// Writes outputs, trace and recording, each also where another one cannot be written.
/// \error  the first of them.
Status keep(const RunOptions& options, const Pipeline& pipeline, const Watchers& watching,
            OutputWriter& writer) {
  Status kept = writer.finish();
  const auto then = [&kept](Status next) {
    if (kept) kept = std::move(next);
  };
  if (!options.trace.empty()) then(write_trace(pipeline, options.trace));
  then(stop(watching));
  return kept;
}

struct Length {
  std::optional<std::uint64_t> frames;  ///< At most; empty: as many as come.
  bool certain = true;                  ///< Whether it may not be fewer.
};

Length count_frames(const RunOptions& options, const frames::Source& source) {
  if (options.frames > 0) return {options.frames, !source.is_live()};
  const bool given = frames::has_files(options.inputs);
  const bool watched = !given && !options.watch.page.empty();  // Until who looks has seen enough.
  if (source.is_live() || watched) return {std::nullopt, false};
  return {given ? source.count() : kRandomFrames, true};
}

/// Some inputs are given; that another was forgotten shows in no result.
void warn_of_random(const std::vector<std::string>& inputs) {
  if (inputs.empty()) return;
  const bool one = inputs.size() == 1;
  spdlog::warn(
      "--input: {} random: give {} ({}), or bind {} (--constant; in an application 'constants')",
      concat(one ? "input " : "inputs ",
             join(inputs, ", ", [](const auto& name) { return concat("'", name, "'"); }),
             one ? " is" : " are"),
      one ? "its values" : "their values",
      join(inputs, ", ", [](const auto& name) { return concat("--input ", name, "=FILE"); }),
      one ? "it" : "them");
}

Result<int> run(const RunOptions& options) {
  PENSTOCK_TRY(const auto stream, to_stream_options(options.stream));
  const auto backends = load_backends();
  PENSTOCK_TRY(auto package, load_source(options.source, backends));
  plan::apply(stream, package.plan);
  warn_of_options(stream, package.plan);
  pipeline::Options settings;
  settings.in_flight = options.in_flight;
  settings.trace = !options.trace.empty();
  settings.label = "at the start";
  const auto& inputs = package.plan.inputs;
  const bool given = frames::has_files(options.inputs);
  const std::uint64_t wanted = options.frames > 0 ? options.frames : kRandomFrames;
  PENSTOCK_TRY(const auto arguments, frames::with_bound(options.inputs, package));
  const auto open = [&] {
    if (!given) {
      const int streams = stream.streams ? stream.streams->most : 1;
      return frames::Source::random(inputs, options.inputs.random, std::min(wanted, kRandomRing),
                                    static_cast<std::uint64_t>(streams));
    }
    return stream.streams ? frames::Source::open_streams(inputs, arguments, stream.streams->most)
                          : frames::Source::open(inputs, arguments);
  };
  PENSTOCK_TRY(auto source, open());
  if (given) warn_of_random(source.random_inputs());
  const auto [frames, certain] = count_frames(options, source);
  PENSTOCK_TRY(auto writer, OutputWriter::create(options.output, package.plan.outputs,
                                                 certain ? frames : std::nullopt,
                                                 frames::paths_of(inputs, arguments)));
  PENSTOCK_CHECK_OK(check_apart(options));
  if (!options.trace.empty())
    PENSTOCK_CHECK_OK(check_writable("--trace", options.trace, true, kJson));
  const InterruptGuard guard(Hangup::kReload);
  PENSTOCK_TRY(auto started, start_source(options.source, package, settings, backends));
  const std::shared_ptr<Pipeline> pipeline = std::move(started);
  PENSTOCK_TRY(const auto watching, watch(options.watch, package, pipeline));
  const auto put = [&](const plan::Plan& plan, const std::filesystem::path& folder) {
    return replace_source(options.source, {plan, folder, nullptr}, settings, backends, *pipeline);
  };
  auto tuned = package;  // Its files are read at each swap, and those of a later one by who looks.
  if (options.tune == 0) tuned.files.reset();
  PENSTOCK_TRY(auto tuner, tune(options.tune, tuned, pipeline, put));
  package.files.reset();  // All is loaded: a call that hangs until it is killed leaves none.
  int hangups = 0;
  Reloader reloader([&]() -> Status {
    auto label = concat("at SIGHUP ", ++hangups);
    PENSTOCK_TRY(auto again, load_source(options.source, backends));
    plan::apply(stream, again.plan);
    tuner.reset();
    auto before = std::exchange(settings.label, std::move(label));
    Status done = put(again.plan, again.folder);
    if (!done) settings.label = std::move(before);
    const bool read_later = options.tune != 0 || !watching.empty();
    if (done && read_later) tuned = std::move(again);
    PENSTOCK_TRY(tuner, tune(options.tune, tuned, pipeline, put));
    return done;
  });
  PENSTOCK_TRY(auto summary, Stream(options, *pipeline, source, frames, writer, reloader).run());
  const Status kept = keep(options, *pipeline, watching, writer);
  PENSTOCK_TRY(const int code, report(options, package.plan, source, summary));
  PENSTOCK_CHECK_OK(kept);
  return code;
}

constexpr const char* kRunFooter =
    R"(Inputs come from files or are random, the same for the same seed. A file's type is its name's ending;
a picture is resized to the input's height and width, u8 as it is or f32 scaled to 0..1. --input may
name an input several times, or a folder: one value a frame, files by name. A .wav is cut into frames
of the input's samples, -1..1, the last filled with zeros. All frames run once; --frames beyond them
repeats them. With --streams, each file of an input is a stream of its own, and the streams' frames go in
turn, as random ones do. '-' is standard input: frames as plain bytes of the input's type and shape, or .npy
files, one behind the other until it ends. A file of a folder that cannot be read is an error of its
frame, and the others go on (--on-error stop ends there). Outputs go to DIR/<name>.npy, DIR/<frame>/<name>.npy
where there are several frames, or into one .npz. A .jsonl has one line of JSON for each frame, its
outputs as lists or its error, and which files it is of; '-' writes these to standard output, and the report to stderr. A
folder in which files of an earlier run would remain is refused.

Examples:
  penstock run model.penstock --frames 1000
  penstock run model.penstock --input x=cat.png --input x=dog.png --output out
  penstock run model.penstock --input x=photos --output out
  penstock run app.yaml --input image=photos --output out        networks and functions (docs/composition.md)
  ffmpeg -i a.mp4 -s 224x224 -f rawvideo -pix_fmt rgb24 - | penstock run m.onnx --input x=- --output -
  penstock run voice.onnx --input audio=speech.wav --output results.npz
  penstock run calls.penstock --streams 2 --input x=a.wav --input x=b.wav --output -
  penstock run model.penstock --inputs frames.npz --output - | jq .outputs.scores
  penstock run model.onnx --inputs frames.npz --output results.npz
  penstock run model.penstock --rate 30 --policy latest --max-age 100 --trace trace.json
  penstock run model.penstock --rate 30 --page       to be looked at while it runs, until Ctrl-C
  penstock run model.penstock --frames 100000 --record run.html      and afterwards
  penstock run model.penstock --frames 100000 --tune 0.02            beside neighbours that come and go
  penstock run denoise.onnx --state cache_out=cache_in --inputs frames.npz --output results.npz

SIGHUP reads the package, application or model again and lets it take the frames from then on, none
lost; one line on standard error says so, or why not, and what runs goes on. Where SIGHUP is ignored, as
under nohup, it stays so.

Exit code 1 if any frame failed; frames that a policy dropped are no failures. 130 after Ctrl-C.)";

}  // namespace

void declare_run(CLI::App& app, Action& chosen) {
  auto options = std::make_shared<RunOptions>();
  auto* command = add_command(
      app, "run",
      "Runs frames through a pipeline: files or random inputs in, outputs and a report out.",
      kRunFooter);
  add_source_options(command, options->source);
  add_input_options(command, options->inputs);
  command
      ->add_option(
          "--frames", options->frames,
          "How many (default: what the files hold, or 100 random ones, with --page as many "
          "as come until Ctrl-C); files repeat")
      ->check(positive_count());
  command->add_option(
      "-o,--output", options->output,
      "Where outputs go: a folder, a .npz, or lines of JSON as .jsonl or - (standard output)");
  command->add_option("--rate", options->rate, "Frames pushed a second (default: as fast as taken)")
      ->check(positive_number());
  command
      ->add_option("--in-flight", options->in_flight,
                   "Most frames between push and pop (default: what the edges hold)")
      ->check(positive_count());
  add_stream_options(command, options->stream);
  command->add_option(
      "--trace", options->trace,
      "Write a trace of every frame (of the last 100000) for ui.perfetto.dev to this file");
  add_watch_options(command, options->watch);
  add_tune_option(command, options->tune);
  command->add_flag("--json", options->json, "Print the report as JSON");
  set_action(command, chosen, options, run);
}

}  // namespace penstock::cli
