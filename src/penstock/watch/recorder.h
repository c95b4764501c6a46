// Recorder: looks at a pipeline twice a second, remembers, and tells whoever listens.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/http/router.h"
#include "penstock/watch/history.h"
#include "penstock/watch/samples.h"

namespace penstock::watch {

/// \threads  all functions may be called from any thread, start() and stop() once each.
class Recorder {
 public:
  Recorder(std::shared_ptr<const pipeline::Pipeline> pipeline, const std::string& report);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { stop(); }

  /// \error kResourceExhausted  no thread is left.
  Status start();
  /// Looks for a last time, and ends all streams.
  void stop();

  /// Answers with server-sent events: what is behind sample `after` of those remembered, then each
  /// one that comes.
  void listen(const http::Responder& responder, std::uint64_t after);
  /// What was seen, as the page that shows it. `live`: which goes on to listen.
  [[nodiscard]] std::string page(bool live) const;
  /// {"about", "sample"}: of now, for programs; without the report.
  [[nodiscard]] std::string snapshot() const;

 private:
  void run();
  void look() noexcept;
  void take();
  void tell(const std::string& event);
  [[nodiscard]] std::string generation_event() const;

  Sampler sampler_;            // By who looks: run(), then stop().
  std::uint64_t skipped_ = 0;  // Likewise.
  std::thread thread_;

  mutable std::mutex mutex_;  // Guards all below.
  std::condition_variable woken_;
  bool stopping_ = false, stopped_ = false;
  Json about_;
  History history_;
  std::vector<http::Stream> listeners_;
};

}  // namespace penstock::watch
