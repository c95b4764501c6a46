// Repository: the models that a server has, by name and version.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "penstock/serve/load_config.h"
#include "penstock/serve/running_model.h"
#include "penstock/serve/server_options.h"

namespace penstock::serve {

/// \threads  all functions may be called from any thread.
class Repository {
 public:
  Repository(const Server::Options& options, const backend::Registry& backends);
  ~Repository();
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  Status load_all();
  Status load(const std::string& name, const LoadOptions& options);
  Status unload(const std::string& name);
  Reloaded reload();

  /// \error as Server::describe()
  Result<Pinned<RunningModel>> find(const std::string& name, const std::string& version) const;
  /// Those that are ready; of all names where `name` is empty.
  [[nodiscard]] std::vector<Pinned<RunningModel>> ready_ones(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> ready_versions(const std::string& name) const;
  /// \error  no such model or version
  Result<bool> is_ready(const std::string& name, const std::string& version) const;
  [[nodiscard]] bool all_ready() const;
  [[nodiscard]] std::vector<IndexEntry> index() const;

  /// From now on find() says that the server ends.
  void drain();
  [[nodiscard]] bool is_draining() const;
  /// When it last said so; when drain() was called, before.
  [[nodiscard]] std::chrono::steady_clock::time_point last_refusal() const;
  /// Requests in progress, of all models.
  [[nodiscard]] std::size_t pending() const;

  [[nodiscard]] Shared& shared() const { return *shared_; }

 private:
  /// Where a version comes from.
  struct Source {
    std::filesystem::path path;
    bool native_code = false;
    std::shared_ptr<const void> files;  // An upload's; null: the user's own.
    std::uint64_t bytes = 0;            // Of an upload.
    app::ModelSettings settings = {};
    LoadConfig config = {};  // Of the load that it came by.
  };
  using Sources = std::map<std::uint64_t, Source>;
  struct Version {
    Source source;
    std::string state = "UNAVAILABLE";
    std::string reason;
    std::unique_ptr<RunningModel> model;
  };
  using Versions = std::map<std::uint64_t, Version>;

  /// What apply() is at.
  struct Load {
    const std::string& name;
    const Sources& wanted;
    std::map<std::uint64_t, std::unique_ptr<RunningModel>> started = {};  // Not in place yet.
  };

  Status apply(const std::string& name, const Sources& wanted);
  static Status obey(const LoadConfig& config, Sources& sources);
  [[nodiscard]] Result<plan::Package> load_source(const Source& source) const;
  using Others = pipeline::Pipeline::MayGo;  // Loads the other versions of the same load.
  Status load_from(Load& load, Sources::const_iterator first);
  Status load_version(Load& load, std::uint64_t number, const Source& source, const Others& others);
  Status renew(Load& load, std::uint64_t number, const Source& source, RunningModel& model,
               const Others& others);
  Status start(Load& load, std::uint64_t number, const Source& source, const Others& others);
  void put_in_place(Load& load);
  Status check_room(const std::string& name, const Sources& wanted);
  void retire(const std::string& name, std::uint64_t number, const std::string& reason);
  void take_away(std::unique_ptr<RunningModel> model) const;
  void note_failure(const Load& load, std::uint64_t number, const Error& error);
  void forget(const std::string& name, std::uint64_t number);  // Under `mutex_`.
  [[nodiscard]] bool is_unloaded(const std::string& name) const;
  Result<Sources> receive(const std::string& name, const LoadConfig& config,
                          const LoadOptions& options);
  /// Under `mutex_`. \error as find()
  Result<const Version*> look_up(const std::string& name, const std::string& version) const;

  const std::unique_ptr<Shared> shared_;
  const std::chrono::nanoseconds patience_;
  const bool native_code_, uploads_native_code_;
  std::map<std::string, Sources> given_;  // As the server was started with.

  std::mutex changing_;       // One load() or unload() at a time.
  mutable std::mutex mutex_;  // Guards all below; not held while a model starts or ends.
  std::map<std::string, Versions> models_;
  bool draining_ = false;
  mutable std::chrono::steady_clock::time_point last_refusal_;  // While draining.
};

}  // namespace penstock::serve
