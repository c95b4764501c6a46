// Server: the models behind a port, and what the protocols ask of them. Knows no wire.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/serve/model.h"
#include "penstock/serve/reloaded.h"
#include "penstock/serve/request.h"
#include "penstock/serve/statistics.h"

namespace penstock::serve {

class Repository;
class SharedMemory;  // shared_memory.h
struct Limits;       // server_options.h
struct Shared;       // running_model.h

/// One request in progress, for as long as somebody may want to cancel it.
class Call {
 public:
  virtual ~Call() = default;
  /// The request ends as cancelled, unless it has ended. Any thread; idempotent.
  virtual void cancel() = 0;
};

/// What a model's row of the repository's index says.
struct IndexEntry {
  std::string name;
  std::string version;
  std::string state;   ///< "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
  std::string reason;  ///< Why it is not ready.
};

/// What load() may be told besides the name, as the repository extension has it.
struct LoadOptions {
  std::string config;  ///< JSON of the model's configuration; empty: none.
  std::map<std::string, std::string>
      files;  ///< Bytes by path in the model's folder: "1/model.onnx".
  /// Of a model (.onnx): input -> its value for good, as `--constant` has it; output -> "IN" or
  /// "IN:FILE.npy", as `--state` does. A .npy file is one of `files`, beside the model.
  std::map<std::string, std::string> constants, states;
};

/// \threads  all functions may be called from any thread, but not from a `done`, besides infer().
class Server {
 public:
  struct Options;  // server_options.h

  /// Loads all models. \error  of the first that cannot be loaded, with its name.
  static Result<std::unique_ptr<Server>> start(const Options& options,
                                               const backend::Registry& backends);
  /// Requests in progress end as cancelled; their `done` is called before.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] bool live() const;
  /// Every model that should be there is, and the server is not draining.
  [[nodiscard]] bool ready() const;
  /// False: it is there, but not ready.
  /// \error kNotFound, kInvalidArgument  as describe().
  [[nodiscard]] Result<bool> model_ready(const std::string& model,
                                         const std::string& version) const;
  /// \error kNotFound         "Request for unknown model: 'm' is not found"
  /// \error kInvalidArgument  a version that is no number.
  /// \error kUnavailable      it is not ready: says why.
  [[nodiscard]] Result<ModelDescription> describe(const std::string& model,
                                                  const std::string& version) const;
  /// Of one model, of all of its versions that are ready where `version` is empty, or of all models
  /// where `model` is empty. \error as describe()
  [[nodiscard]] Result<std::vector<ModelStatistics>> statistics(const std::string& model,
                                                                const std::string& version) const;

  /// Starts a request. `done` is called once, however it ends, by a thread of a pipeline or by the
  /// caller's within the call; it must be short, and may call infer().
  /// \returns what cancels it; null where no model of that name was found.
  /// The errors that `done` gets: kNotFound (model), kInvalidArgument (inputs, outputs, region),
  /// kResourceExhausted (too many wait), kDeadlineExceeded, kCancelled, kUnavailable (draining),
  /// and those of a frame.
  std::shared_ptr<Call> infer(Request request, std::function<void(Result<Reply>)> done);

  /// Every version of every model, also of those that are unloaded.
  [[nodiscard]] std::vector<IndexEntry> index(bool only_ready) const;
  /// Reads the model again, whose requests go on meanwhile (Pipeline::replace), or loads it. With
  /// files it is made of them; they are kept in a temporary folder. Returns when it is done. Where
  /// one of several versions cannot be loaded, none is, and what was served before goes on; so all
  /// of them stand beside what was served for a moment.
  /// \error kNotFound, kInvalidArgument, kPermissionDenied, kResourceExhausted, and those of a
  /// start
  Status load(const std::string& model, const LoadOptions& options);
  /// Returns when its requests have ended. A model that is not known is no error.
  Status unload(const std::string& model);
  /// load() for each model that the server was started with and nobody has unloaded.
  Reloaded reload();

  /// Chrome/Perfetto JSON: the last requests, and what each stage of each model that is ready did.
  /// \returns how many earlier spans are lost. \error as pipeline::Pipeline::write_trace()
  Result<std::uint64_t> write_trace(const std::filesystem::path& file) const;

  [[nodiscard]] SharedMemory& shared_memory();
  [[nodiscard]] const Limits& limits() const;
  /// For who runs models of its own beside: engines, limits and budgets are common to all.
  [[nodiscard]] Shared& shared();

  /// No new requests; returns once those in progress have ended, or `timeout` has passed (false).
  /// Then it waits until none has been refused for 100 ms, 1 s at most: who is told kUnavailable
  /// asks elsewhere.
  bool drain(std::chrono::nanoseconds timeout);

 private:
  explicit Server(std::unique_ptr<Repository> repository);
  std::unique_ptr<Repository> repository_;
};

}  // namespace penstock::serve
