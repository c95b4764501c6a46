// Registry: the backends of this process, by name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/backend.h"

namespace penstock::backend {

/// A device with memory of its own that is there, and who runs models on it.
struct Accelerator {
  std::string device;   ///< "cuda:0"
  std::string name;     ///< Backend::device_name()
  std::string backend;  ///< "cuda"
};

/// Loads plugins and keeps them: `libpenstock_backend_*.so` from the folders of the environment
/// variable PENSTOCK_PLUGIN_PATH (colon-separated folders or files), then from the folder beside
/// this executable or library (`../lib/penstock/plugins`). The first of a name wins.
class Registry {
 public:
  Registry() = default;  ///< Empty: for tests that add() their own.

  /// Everything found in the places above. Never fails: what could not be loaded is in problems().
  static Registry load();

  /// Opens one plugin by path. \error kNotFound, kFailedPrecondition (another ABI version or
  /// build: the message says which, and to rebuild the plugin).
  Status add_plugin(const std::filesystem::path& file);
  /// Takes over a backend made in this process.
  void add(std::shared_ptr<Backend> backend);

  /// \error kNotFound  names the backend asked for, those there are, and the problems met.
  [[nodiscard]] Result<std::shared_ptr<Backend>> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::shared_ptr<Backend>>& all() const { return backends_; }
  /// Devices of this machine beside its CPUs, as backends name them, in their order.
  [[nodiscard]] std::vector<Accelerator> accelerators() const;
  /// One sentence for each library that was found and could not be used.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  void add_named(std::string name, std::shared_ptr<Backend> backend);

  std::vector<std::shared_ptr<Backend>> backends_;
  std::vector<std::string> names_;  // Of backends_: describe() would start the engine.
  std::vector<std::string> problems_;
};

}  // namespace penstock::backend
