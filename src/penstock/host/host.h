// Host: what this machine does for callers of other ones.
// It is a server's part that knows stages. It knows no wire.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/host/call.h"
#include "penstock/host/contents.h"
#include "penstock/host/machine.h"
#include "penstock/host/measuring.h"
#include "penstock/host/options.h"
#include "penstock/host/session.h"
#include "penstock/host/stage.h"
#include "penstock/host/tickets.h"
#include "penstock/serve/server.h"

namespace penstock::host {

/// A file by its content, and its path in the folder that it is put in.
struct FileOrder {
  std::string path;
  std::string sha256;
};

/// \threads  all functions may be called from any thread.
class Host {
 public:
  using Options = host::Options;

  /// \pre  `server` outlives it. \error as Contents::open(); kResourceExhausted  no thread.
  static Result<std::unique_ptr<Host>> start(serve::Server& server, Options options);
  /// stop()
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] const Limits& limits() const { return options_.limits; }
  [[nodiscard]] bool native_code() const { return options_.native_code; }
  [[nodiscard]] const std::string& instance() const { return instance_; }  ///< Random.
  [[nodiscard]] Result<MachineFacts> describe() const;
  /// Empty where there is no such backend.
  [[nodiscard]] std::string engine_version(const std::string& backend) const;

  // Sessions. `client`: the name by which the server knows who asks, or empty.

  /// `lease` of 0: the worker's own. \error kUnavailable  it drains; as Sessions::open()
  Result<std::shared_ptr<Session>> open(const std::string& client, const std::string& caller,
                                        std::chrono::nanoseconds lease);
  /// \error kNotFound
  [[nodiscard]] Result<std::shared_ptr<Session>> find(const std::string& id,
                                                      const std::string& client) const {
    return sessions_.find(id, client);
  }
  /// Finds it for a caller who was cut off, and still has these tickets of it: others are freed.
  /// \error kNotFound
  [[nodiscard]] Result<std::shared_ptr<Session>> take_up(const std::string& id,
                                                         const std::string& client,
                                                         const std::set<std::string>& tickets);
  /// False: it has ended.
  bool beat(const Session& session) { return sessions_.beat(session, Clock::now()); }
  /// Ends it; what it has is freed soon, by another thread.
  void close(const Session& session);

  // Contents. They block.

  /// Those that are not here; the others are held for the session.
  std::vector<std::string> missing(Session& session, const std::vector<std::string>& sha256);
  [[nodiscard]] Contents& contents() { return *contents_; }

  // Stages. They block.

  /// Lays the files out, compiles the first one, and adds the stage to the session.
  /// \error kNotFound  a content is not here; as Stage::open(); kUnavailable  it drains;
  /// kResourceExhausted  so many stages are open.
  Result<std::uint64_t> open_stage(Session& session, StageOrder order,
                                   const std::vector<FileOrder>& files,
                                   const std::vector<FileOrder>& custom_ops);
  void close_stage(Session& session, std::uint64_t number);

  /// As start_call().
  std::shared_ptr<Call> call(const std::shared_ptr<Session>& session, Puller& puller,
                             CallRequest request, CallDone done);
  [[nodiscard]] Tickets& tickets() { return tickets_; }

  /// Blocks. \error kNotFound  a content is not here; as Measuring::run()
  Result<Measured> measure(MeasureOrder order, const std::vector<FileOrder>& files,
                           const std::function<bool()>& interrupted);

  [[nodiscard]] std::size_t sessions() const { return sessions_.count(); }
  /// What it has of others now.
  struct Load {
    std::size_t sessions = 0, stages = 0, calls = 0;
    std::uint64_t kept_bytes = 0;    ///< Of tensors that others are to pull.
    std::uint64_t stored_bytes = 0;  ///< Of files on disk, those on their way too.
  };
  [[nodiscard]] Load load() const;
  [[nodiscard]] bool draining() const;
  /// No new sessions and stages; returns once no call is in progress, or `timeout` has passed
  /// (false).
  bool drain(std::chrono::nanoseconds timeout);
  /// Ends all sessions, with what they have; calls in progress end as cancelled, but for those that
  /// wait for other workers: their callers cancel them before. Idempotent.
  void stop();

 private:
  Host(serve::Server& server, Options options, std::shared_ptr<Contents> contents,
       std::string instance);
  using Files = std::vector<std::pair<std::string, HeldContent>>;

  void keep();
  void end(const std::vector<std::shared_ptr<Session>>& sessions, const char* why);
  Result<Files> find_files(const std::vector<FileOrder>& files);
  Status count_stage();

  serve::Server& server_;
  const Options options_;
  const std::shared_ptr<Contents> contents_;
  const std::string instance_;
  Tickets tickets_;
  Sessions sessions_;
  Measuring measuring_;

  mutable std::mutex mutex_;  // Guards all below but the thread.
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Stage>> to_close_;
  std::size_t stages_ = 0;  // Open, and on their way to it or from it.
  std::size_t calls_ = 0;   // In progress.
  bool draining_ = false, ends_ = false;
  std::thread keeper_;  // Ends leases, and closes stages.
};

}  // namespace penstock::host
