// What gateway::start_watching() loads: a pipeline behind a port.
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "penstock/base/draft.h"
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

namespace fs = std::filesystem;
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

Error no_recording(const fs::path& file, Code code, const std::string& reason) {
  return make_error(code, "recording '", file.string(), "': cannot be written: ", reason,
                    "; name a file in a folder that exists and may be written to");
}

Error no_recording(const fs::path& file, int number) {
  return no_recording(file, code_of_errno(number), std::generic_category().message(number));
}

/// Of what is there by that name.
Status check_replaceable(const fs::path& file) {
  std::error_code ignored;
  const auto refused = [&](const char* reason) {
    return no_recording(file, Code::kPermissionDenied, reason);
  };
  if (fs::is_directory(file, ignored)) return refused("it is a folder");
  if (fs::is_socket(file, ignored)) return refused("it is a socket");
  if (would_lose(file, "<!doctype html")) {
    return refused("it is there, and no page, and would be lost; choose another name");
  }
  if (!fs::exists(file, ignored) || ::access(file.c_str(), W_OK) == 0) return {};
  return no_recording(file, errno);
}

/// Links, devices, pipes and what nothing can be made beside are not replaced by another file.
bool is_written_in_place(const fs::path& file) {
  std::error_code ignored;
  const auto there = fs::symlink_status(file, ignored);
  if (!fs::exists(there)) return false;
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return !fs::is_regular_file(there) || ::access(folder.c_str(), W_OK) != 0;
}

/// The file of a recording, which has its name once it is whole.
class Recording {
 public:
  /// Tells at the start, not after hours, that it has no place. What is written in place is opened
  /// at the end: a pipe waits for its reader, and an earlier page stays until then.
  Status begin(const fs::path& file) {
    PENSTOCK_CHECK_OK(check_replaceable(file));
    file_ = file;
    if (is_written_in_place(file)) return {};
    draft_ = std::make_unique<Draft>(file);
    return draft_->out() ? Status() : no_recording(file, errno);
  }
  Status write(const std::string& text) {
    errno = 0;
    if (draft_ == nullptr) draft_ = std::make_unique<Draft>(file_);
    if (draft_->out()) draft_->out() << text;
    return draft_->commit() ? Status() : no_recording(file_, errno);
  }
  /// Nothing stays of it.
  void drop() { draft_.reset(); }

 private:
  fs::path file_;
  std::unique_ptr<Draft> draft_;  // Null until the end where it is written in place.
};

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
  explicit Watch(const WatchOptions& options) : warn_(options.warn) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() override {
    const Status stopped = stop();
    if (!stopped && warn_) warn_(stopped.error().message());
  }

  /// The first call.
  Status open(const std::shared_ptr<const Pipeline>& pipeline, const WatchOptions& options) {
    static_cast<void>(pipeline->observe());  // From now on latencies are kept.
    if (!options.record.empty()) {
      PENSTOCK_CHECK_OK(recording_.begin(options.record));
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
    if (opened_) return recording_.write(recorder_->page(false));
    recording_.drop();
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

  const std::function<void(const std::string&)> warn_;
  std::shared_ptr<Recorder> recorder_;  // Null: there is neither page nor recording.
  std::unique_ptr<http::Server> server_;
  std::string address_;
  std::mutex mutex_;  // Guards stop().
  Recording recording_;
  bool begun_ = false;  // The recording.
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
