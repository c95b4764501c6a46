// What a server is started with.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/app/source.h"
#include "penstock/function/function.h"
#include "penstock/serve/server.h"

namespace penstock::serve {

/// One model to serve.
struct ModelSource {
  std::string name;             ///< Empty: the path's stem.
  std::uint64_t version = 1;    ///< Of several of one name, the highest is the latest.
  std::filesystem::path path;   ///< A package, an application (.yaml) or a model (.onnx).
  app::ModelSettings settings;  ///< Of a model alone.
};

/// What models of a name are loaded with.
struct NamedSettings {
  std::string model;  ///< As models_called() has it.
  app::ModelSettings settings;
};

/// `[NAME[:VERSION]=]PATH`. \error kInvalidArgument
Result<ModelSource> parse_source(const std::string& text);

/// Those of `models` that `name` stands for: "NAME" for all versions, or "NAME:VERSION"; empty for
/// the only model. \error kInvalidArgument  there is none, or there are several models to choose
/// from.
Result<std::vector<ModelSource*>> models_called(std::vector<ModelSource>& models,
                                                const std::string& name);

/// What a server never goes beyond; who would, gets kResourceExhausted and one sentence.
struct Limits {
  std::size_t models = 64;     ///< Versions of all models together.
  std::size_t waiting = 1024;  ///< Requests of a model that wait for room.
  /// Inputs of all requests in progress; and as much again outputs of replies that are held still.
  std::uint64_t request_bytes = std::uint64_t{1} << 30;
  std::uint64_t message_bytes = std::uint64_t{256} << 20;  ///< Of one message of a protocol.
  std::size_t connections = 8192;                          ///< Of each protocol: open at a time.
  std::size_t streams = 256;                               ///< Of one connection: calls at a time.
  std::size_t sequences = 64;  ///< Of a model with states: that are open at a time.
  std::chrono::nanoseconds sequence_idle = std::chrono::seconds(60);  ///< Then it may be ended.
  std::size_t regions = 1024;                                         ///< Of shared memory.
  std::uint64_t region_bytes = std::uint64_t{16} << 30;               ///< Of all of them.
  std::uint64_t upload_bytes = std::uint64_t{4} << 30;  ///< Of all models that were uploaded.
};

struct Server::Options {
  std::vector<ModelSource> models;
  Limits limits;
  bool trace = false;                ///< Keep spans of requests and stages, for write_trace().
  bool native_code = true;           ///< Of the models above: may load libraries.
  bool uploads_native_code = false;  ///< Of models that clients upload.
  std::map<std::string, std::map<std::string, std::string>> backend_options;  ///< By backend name.
  std::vector<function::Function> functions;     ///< What applications call without a library.
  std::function<void(const std::string&)> warn;  ///< Any thread.
  std::function<bool()> stopped;                 ///< Asked by start(): true ends it.
  /// How long load() and unload() wait for the requests of what they take away; those that are not
  /// done then end as cancelled.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
};

}  // namespace penstock::serve
