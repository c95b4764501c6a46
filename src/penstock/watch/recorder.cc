// Sends new samples as server-sent events, and makes the page and the snapshot.
#include "penstock/watch/recorder.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "penstock/base/thread.h"
#include "penstock/tune/page.h"

namespace penstock::watch {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(500);
constexpr const char* kEnd = "event: end\ndata: {}\n\n";

std::string event_of(const char* name, std::uint64_t id, const std::string& data) {
  return concat("event: ", name, "\nid: ", id, "\ndata: ", data, "\n\n");
}

}  // namespace

Recorder::Recorder(std::shared_ptr<const pipeline::Pipeline> pipeline, const std::string& report)
    : sampler_(std::move(pipeline), report), about_(sampler_.about()) {}

Status Recorder::start() {
  return start_thread(thread_, [this] { run(); });
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
  tell(kEnd);
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

/// Where there is no memory for a look, it is skipped: the pipeline goes on, and so does the page.
void Recorder::look() noexcept {
  try {
    take();
  } catch (const std::exception&) {
    ++skipped_;
  }
}

void Recorder::take() {
  auto sample = sampler_.take();
  sample.json["skipped"] = skipped_;
  const std::scoped_lock lock(mutex_);
  if (sample.renewed) {
    about_ = sampler_.about();
    history_.forget_samples();
    tell(generation_event());
  }
  history_.keep(sample);
  for (const auto& text : history_.since(sample.number - 1)) {
    tell(event_of("sample", text.number, text.json));
  }
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
  constexpr std::size_t kRoom = http::Stream::kMostWaiting - 4096;  // Beside what was written.
  for (const auto& text : history_.since(after, kRoom)) {
    stream.write(event_of("sample", text.number, text.json));
  }
  if (stopped_) {
    stream.write(kEnd);
  } else {
    listeners_.push_back(std::move(stream));
  }
}

std::string Recorder::page(bool live) const {
  const std::scoped_lock lock(mutex_);
  return tune::make_page(
      {.name = about_["model"].get<std::string>(),
       .what = "Penstock",
       .without =
           "This page is drawn by a program in it, which this browser does not run. 'penstock "
           "top' shows the same in a terminal.",
       .id = "live",
       .json = concat("{\"about\":", text_of(about_), ",\"samples\":", history_.samples(),
                      ",\"failures\":", history_.failures(), ",\"missed\":", history_.missed(),
                      ",\"live\":", live ? "true" : "false", "}")});
}

std::string Recorder::snapshot() const {
  const std::scoped_lock lock(mutex_);
  Json about = about_;
  about.erase("report");
  constexpr std::size_t kShown = 10;
  return concat("{\"about\":", text_of(about), ",\"sample\":", history_.last(),
                ",\"failures\":", history_.failures(kShown), "}\n");
}

}  // namespace penstock::watch
