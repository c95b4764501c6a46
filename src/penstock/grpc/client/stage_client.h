// A stage on a worker of ours (worker.proto), run over one stream.
// Its model is put there by its content, and compiled there.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/grpc/client/peer_options.h"
#include "penstock/grpc/client/remote_model.h"

namespace penstock::grpc {

/// What the worker compiles, for where.
struct StageRequest {
  std::string name;               ///< For messages.
  std::filesystem::path model;    ///< Or empty and
  std::string bytes;              ///< the model itself.
  std::vector<std::string> data;  ///< External data of `model`: paths from its folder.
  std::vector<std::filesystem::path> custom_ops;
  std::string backend;  ///< "onnxruntime"
  std::string device;   ///< "cpu:0-3", of the worker.
  std::map<std::string, std::string> options;
  bool flush_denormals = false;
  /// Workers whose stages may make what this one reads: it may fetch from them.
  std::vector<std::string> peers;
};

/// Blocks until the stage is compiled. Contents that the worker has are not sent again. A worker
/// that is lost and comes back goes on with the stage, or is given it anew.
/// \error kUnavailable  no worker is there. And what it says of the stage.
Result<std::unique_ptr<RemoteModel>> open_stage(PeerOptions options, StageRequest request);

}  // namespace penstock::grpc
