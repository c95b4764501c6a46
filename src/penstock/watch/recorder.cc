// Thins out old samples, sends new ones as server-sent events, and makes the page and the snapshot.
#include "penstock/watch/recorder.h"

#include <chrono>
#include <utility>

#include "penstock/pipeline/thread.h"
#include "penstock/tune/page.h"

namespace penstock::watch {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(500);
/// Samples remembered; of more, every second of the older ones goes, so that the whole run stays.
constexpr std::size_t kMost = 2400;
constexpr std::size_t kRecent = 600;  ///< Of which none goes.
constexpr std::size_t kFailures = 1000;

std::string event_of(const char* name, std::uint64_t id, const std::string& data) {
  return concat("event: ", name, "\nid: ", id, "\ndata: ", data, "\n\n");
}

std::string with_failures(const Sample& sample) {
  Json json = sample.json;
  json["failures"] = sample.failures;
  json["missed"] = sample.missed;
  return text_of(json);
}

template <typename Texts, typename Text>
std::string array_of(const Texts& texts, Text text) {
  return "[" + join(texts, ",", text) + "]";
}

}  // namespace

Recorder::Recorder(std::shared_ptr<const pipeline::Pipeline> pipeline, const std::string& report)
    : sampler_(std::move(pipeline), report), about_(sampler_.about()) {}

Status Recorder::start() {
  return pipeline::start_thread(thread_, [this] { run(); });
}

void Recorder::stop() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
  look();
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  tell("event: end\ndata: {}\n\n");
  listeners_.clear();
}

void Recorder::run() {
  auto next = std::chrono::steady_clock::now();
  while (true) {
    next += kInterval;
    {
      std::unique_lock lock(mutex_);
      if (woken_.wait_until(lock, next, [this] { return stopping_; })) return;
    }
    look();
    // After a pause, no looks are made up for.
    next = std::max(next, std::chrono::steady_clock::now() - kInterval);
  }
}

void Recorder::look() {
  const auto sample = sampler_.take();
  const auto event = event_of("sample", sample.number, with_failures(sample));
  const std::scoped_lock lock(mutex_);
  if (sample.renewed) {
    about_ = sampler_.about();
    samples_.clear();
    tell(generation_event());
  }
  keep(sample);
  tell(event);
}

void Recorder::keep(const Sample& sample) {
  samples_.push_back({sample.number, text_of(sample.json)});
  for (const auto& failure : sample.failures) failures_.push_back(text_of(failure));
  missed_ += sample.missed;
  for (; failures_.size() > kFailures; ++missed_) failures_.pop_front();
  if (samples_.size() <= kMost) return;
  std::vector<Kept> fewer;
  const std::size_t old = samples_.size() - kRecent;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (i >= old || i % 2 == 0) fewer.push_back(std::move(samples_[i]));
  }
  samples_ = std::move(fewer);
}

void Recorder::tell(const std::string& event) {
  std::erase_if(listeners_, [&](http::Stream& listener) { return !listener.write(event); });
}

std::string Recorder::generation_event() const {
  return concat(
      "event: about\ndata: ",
      text_of({{"generation", about_["generation"]}, {"started_ms", about_["started_ms"]}}),
      "\n\n");
}

void Recorder::listen(const http::Responder& responder, std::uint64_t after) {
  http::Response head;
  head.headers = {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}};
  auto stream = responder.stream(std::move(head));
  const std::scoped_lock lock(mutex_);
  if (!stream.write("retry: 1000\n\n" + generation_event())) return;
  for (const auto& sample : samples_) {
    // What does not fit into the stream is left out: the newest ones are asked for first.
    if (sample.number > after) stream.write(event_of("sample", sample.number, sample.json));
  }
  if (!stopped_) listeners_.push_back(std::move(stream));
}

std::string Recorder::page(bool live) const {
  const std::scoped_lock lock(mutex_);
  const auto itself = [](const std::string& text) { return text; };
  return tune::make_page(
      {.name = about_["model"].get<std::string>(),
       .what = "Penstock",
       .without =
           "This page is drawn by a program in it, which this browser does not run. 'penstock "
           "top' shows the same in a terminal.",
       .id = "live",
       .json = concat("{\"about\":", text_of(about_), ",\"samples\":",
                      array_of(samples_, [](const Kept& sample) { return sample.json; }),
                      ",\"failures\":", array_of(failures_, itself), ",\"missed\":", missed_,
                      ",\"live\":", live ? "true" : "false", "}")});
}

std::string Recorder::snapshot() const {
  const std::scoped_lock lock(mutex_);
  Json about = about_;
  about.erase("report");
  constexpr std::size_t kShown = 10;
  const std::size_t first = failures_.size() - std::min(kShown, failures_.size());
  const std::vector<std::string> last(failures_.begin() + static_cast<std::ptrdiff_t>(first),
                                      failures_.end());
  return concat("{\"about\":", text_of(about),
                ",\"sample\":", samples_.empty() ? "null" : samples_.back().json,
                ",\"failures\":", array_of(last, [](const std::string& text) { return text; }),
                "}\n");
}

}  // namespace penstock::watch
