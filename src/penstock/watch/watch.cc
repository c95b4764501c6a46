// What gateway::start_watching() loads: a pipeline behind a port.
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "penstock/base/files.h"
#include "penstock/gateway/watching.h"
#include "penstock/http/server.h"
#include "penstock/metrics/pipeline.h"
#include "penstock/metrics/process.h"
#include "penstock/serve/access.h"
#include "penstock/watch/doors.h"
#include "penstock/watch/recorder.h"

namespace penstock::watch {
namespace {

using gateway::WatchOptions;
using pipeline::Pipeline;

std::string metrics_text(const Pipeline& pipeline) {
  metrics::Families families;
  const metrics::Labels labels = {{"model", pipeline.shared_plan()->model}};
  metrics::add_pipeline(families, labels, pipeline.stats());
  metrics::add_latency(families, labels, pipeline.observe().latencies.quantiles());
  metrics::add_process(families);
  return families.text();
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The last sample that the client has: by its own word, or by the browser's that comes back.
std::uint64_t after_of(const http::Request& request) {
  const auto* last = http::find_header(request.headers, "Last-Event-ID");
  if (last != nullptr) return number_of(*last);
  constexpr std::string_view kAfter = "after=";
  return request.query.starts_with(kAfter) ? number_of(request.query.substr(kAfter.size())) : 0;
}

/// The page is one file, and asks nobody but this server.
http::Response page_response(std::string text) {
  auto response = http::text_response(200, "text/html; charset=utf-8", std::move(text));
  response.headers.push_back(
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
       "connect-src 'self'; frame-ancestors 'none'"});
  response.headers.push_back({"Cache-Control", "no-store"});
  return response;
}

void add_page(http::Router& router, const std::shared_ptr<Recorder>& recorder,
              const http::Gate& gate) {
  router.add("GET", "/", gate, [recorder](const http::Request&, const http::Responder& to) {
    to.send(page_response(recorder->page(true)));
  });
  router.add("GET", "/events", gate,
             [recorder](const http::Request& request, const http::Responder& to) {
               recorder->listen(to, after_of(request));
             });
  router.add("GET", "/snapshot", gate, [recorder](const http::Request&, const http::Responder& to) {
    to.send(http::text_response(200, "application/json", recorder->snapshot()));
  });
}

void add_metrics(http::Router& router, const std::shared_ptr<const Pipeline>& pipeline,
                 const http::Gate& gate) {
  router.add("GET", "/metrics", gate, [pipeline](const http::Request&, const http::Responder& to) {
    to.send(http::text_response(200, metrics::kContentType, metrics_text(*pipeline)));
  });
}

/// Where a recording is written before it is renamed: who opens it meanwhile sees a whole one.
std::filesystem::path part_of(const std::filesystem::path& file) {
  auto part = file;
  part += ".part";
  return part;
}

Error no_recording(const std::filesystem::path& file, const std::string& reason) {
  return make_error(Code::kPermissionDenied, "recording '", file.string(),
                    "': cannot be written: ", reason,
                    "; name a file in a folder that exists and may be written to");
}

/// Tells at the start, not after hours, that the recording has no place.
Status begin_recording(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return no_recording(file, "it is a folder");
  if (would_lose(file, "<!doctype html")) {
    return no_recording(file, "it is there, and no page, and would be lost; choose another name");
  }
  if (std::ofstream(part_of(file), std::ios::binary)) return {};
  return no_recording(file, std::generic_category().message(errno));
}

Status write_recording(const std::filesystem::path& file, const std::string& text) {
  const auto part = part_of(file);
  const auto written = write_whole_file(part, text);
  if (!written) {
    return make_error(written.error().code, "recording '", file.string(),
                      "': ", written.error().reason);
  }
  std::error_code failed;
  std::filesystem::rename(part, file, failed);
  if (!failed) return {};
  remove_part(part);
  return no_recording(file, failed.message());
}

http::Options to_http(const WatchOptions& options) {
  http::Options http;
  http.address = options.address;
  http.threads = 1;
  http.say = options.warn;
  constexpr std::size_t kFewBytes = 64U << 10U;  // Nobody has anything to send.
  http.limits.body_bytes = http.limits.bodies_bytes = kFewBytes;
  constexpr std::size_t kOnlookers = 64;
  http.limits.connections = kOnlookers;
  return http;
}

class Watch final : public gateway::Watching {
 public:
  explicit Watch(const WatchOptions& options) : record_(options.record), warn_(options.warn) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() override {
    const Status stopped = stop();
    if (!stopped && warn_) warn_(stopped.error().message());
  }

  /// The first call.
  Status open(const std::shared_ptr<const Pipeline>& pipeline, const WatchOptions& options) {
    static_cast<void>(pipeline->observe());  // From now on latencies are kept.
    if (!record_.empty()) {
      PENSTOCK_CHECK_OK(begin_recording(record_));
      begun_ = true;
    }
    if (options.page || !options.record.empty()) {
      recorder_ = std::make_shared<Recorder>(pipeline, options.report);
      PENSTOCK_CHECK_OK(recorder_->start());
    }
    if (!options.address.empty()) PENSTOCK_CHECK_OK(listen(pipeline, options));
    opened_ = true;
    return {};
  }

  [[nodiscard]] const std::string& address() const override { return address_; }

  Status stop() override {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(stopped_, true)) return {};
    if (recorder_ != nullptr) recorder_->stop();
    constexpr auto kPatience = std::chrono::seconds(1);  // Until all have heard of it.
    if (server_ != nullptr) server_->stop(kPatience);
    if (!begun_) return {};
    if (opened_) return write_recording(record_, recorder_->page(false));
    std::error_code ignored;
    std::filesystem::remove(part_of(record_), ignored);
    return {};
  }

 private:
  Status listen(const std::shared_ptr<const Pipeline>& pipeline, const WatchOptions& options) {
    PENSTOCK_CHECK_OK(check_exposure(options.address, options.insecure));
    PENSTOCK_TRY(auto access, serve::Access::open({.tokens = options.tokens, .say = options.warn}));
    const auto gate =
        make_gate(std::make_shared<const serve::Access>(std::move(access)), options.address);
    http::Router router;
    add_metrics(router, pipeline, gate);
    if (options.page) add_page(router, recorder_, gate);
    PENSTOCK_TRY(server_, http::Server::start(to_http(options), std::move(router)));
    address_ = server_->address();
    return {};
  }

  const std::filesystem::path record_;
  const std::function<void(const std::string&)> warn_;
  std::shared_ptr<Recorder> recorder_;  // Null: there is neither page nor recording.
  std::unique_ptr<http::Server> server_;
  std::string address_;
  std::mutex mutex_;    // Guards stop().
  bool begun_ = false;  // The recording's file is there.
  bool opened_ = false, stopped_ = false;
};

Result<std::unique_ptr<gateway::Watching>> start(const std::shared_ptr<const Pipeline>& pipeline,
                                                 const WatchOptions& options) {
  auto watch = std::make_unique<Watch>(options);
  PENSTOCK_CHECK_OK(watch->open(pipeline, options));
  return std::unique_ptr<gateway::Watching>(std::move(watch));
}

}  // namespace
}  // namespace penstock::watch

/// What gateway::start_watching() looks for.
extern "C" void penstock_start_watching(
    std::shared_ptr<const penstock::pipeline::Pipeline> pipeline,
    const penstock::gateway::WatchOptions& options,
    penstock::Result<std::unique_ptr<penstock::gateway::Watching>>& made) {
  made = penstock::watch::start(pipeline, options);
}
