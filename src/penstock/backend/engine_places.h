// Where a toolchain's library may lie on this machine: the same search for every plugin.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::backend {

/// What a plugin looks for.
struct EngineLibrary {
  std::string title;     ///< For messages: "ONNX Runtime".
  std::string package;   ///< What `pip install` calls it: "onnxruntime".
  std::string variable;  ///< The environment variable that names it: "PENSTOCK_ONNXRUNTIME".
  std::string file;      ///< "libonnxruntime.so"; versions follow: "libonnxruntime.so.1".
  /// Where it lies among Python's packages: "onnxruntime/capi". Empty: in the environment's `lib`.
  std::string package_folder;
  std::vector<std::filesystem::path> system;  ///< Names that the loader resolves.
  const void* plugin = nullptr;               ///< Any address in the plugin: it looks beside it.
};

/// One place of the search: what to call it, and the libraries found there (newest first).
struct EnginePlace {
  std::string name;  ///< "PENSTOCK_ENGINE_PATH", "the Python environment '/x/.venv'", ...
  std::vector<std::filesystem::path> libraries;
};

/// The folder of this process's program; empty where the system does not tell.
std::filesystem::path executable_folder();

/// The Python environments `.venv` of `folder` and of each folder above it, the nearest first,
/// without those that another user could have put there.
std::vector<std::filesystem::path> environments_above(const std::filesystem::path& folder);

/// All places, in the order they are tried. The engine's own variable, where set, is the only one:
/// what the user names is used or refused, never silently replaced.
std::vector<EnginePlace> engine_places(const EngineLibrary& engine);

/// kUnavailable: what came of each place tried ("PLACE: outcome"), and what to do.
Error no_engine(const EngineLibrary& engine, const std::vector<std::string>& tried);

/// kResourceExhausted: the library is there, and `error` says what it lacks.
Error no_room_for_engine(const EngineLibrary& engine, const std::filesystem::path& library,
                         Error error);

/// The first library that `open` (a path to a Result) takes.
/// \error kResourceExhausted  a library that is there finds no memory: nothing else is told then,
///                            since to install another one would not help.
/// \error kUnavailable  every place tried with its last refusal, and what to do.
template <typename Open>
auto find_engine(const EngineLibrary& engine, Open open) -> decltype(open(engine.system.front())) {
  std::vector<std::string> tried;
  std::optional<Error> no_room;
  for (const EnginePlace& place : engine_places(engine)) {
    std::string outcome = "nothing there";
    for (const auto& library : place.libraries) {
      auto opened = open(library);
      if (opened) return opened;
      outcome = opened.error().message();
      std::error_code ignored;  // A name that the loader resolves may be nowhere.
      const bool there = std::filesystem::exists(library, ignored);
      if (!no_room && there && opened.error().code == Code::kResourceExhausted) {
        no_room = no_room_for_engine(engine, library, std::move(opened).error());
      }
    }
    tried.push_back(place.name + ": " + outcome);
  }
  return no_room ? *std::move(no_room) : no_engine(engine, tried);
}

/// A loaded library. Never unloaded: an engine's threads and values may outlive every caller.
class LoadedLibrary {
 public:
  /// With symbols of its own. \error kUnavailable  in the loader's words; kResourceExhausted  what
  /// it makes of itself as it is loaded may find no memory.
  static Result<LoadedLibrary> open(const std::filesystem::path& file);

  /// \error kUnavailable  "FILE: no NAME in it"
  template <typename Function>
  Result<Function*> function(const char* name) const {
    PENSTOCK_TRY(void* const symbol, find(name));
    return reinterpret_cast<Function*>(symbol);
  }

  /// The file that holds the function, where the loader chose it.
  [[nodiscard]] std::filesystem::path file_of(const char* name) const;

 private:
  LoadedLibrary(std::filesystem::path file, void* handle)
      : file_(std::move(file)), handle_(handle) {}
  [[nodiscard]] Result<void*> find(const char* name) const;

  std::filesystem::path file_;
  void* handle_;
};

}  // namespace penstock::backend
