#include "compile.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "executable.h"
#include "penstock/base/address.h"
#include "penstock/graph/external_files.h"
#include "penstock/grpc/client/model_client.h"
#include "penstock/grpc/client/peer_options.h"
#include "penstock/grpc/client/stage_client.h"

namespace penstock::remote {
namespace {

/// "oip://host:port/name:version", of which the device says the server.
std::pair<std::string, std::string> name_and_version(const std::string& served) {
  const auto name = served.substr(served.rfind('/') + 1);
  const auto colon = name.rfind(':');
  if (colon == std::string::npos) return {name, ""};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

/// Of a socket's file without a name behind it, the last part was taken for the name.
Status check_name(const backend::CompileRequest& request, const std::string& name) {
  const auto folder = socket_file(request.device.host);
  if (!folder) return {};
  const std::string file = concat(*folder, "/", name);
  std::error_code failed;
  if (!std::filesystem::is_socket(file, failed)) return {};
  return invalid_argument("'", file, "' is the socket's file: write the model's name behind it: ",
                          "oip://unix:", file, "/NAME");
}

Compiled open_served(const backend::CompileRequest& request) {
  auto options = request.options;
  PENSTOCK_TRY(auto peer, grpc::read_peer_options(request.device.host, options));
  if (!options.empty()) {
    return invalid_argument("option '", options.begin()->first,
                            "': expected tls, root_file, certificate_file, key_file, token_file, "
                            "patience_ms or calls: a server takes none for its model");
  }
  const auto [name, version] = name_and_version(request.served);
  PENSTOCK_CHECK_OK(check_name(request, name));
  PENSTOCK_TRY(auto model, grpc::connect_model(std::move(peer), name, version));
  return executable_over(std::move(model));
}

/// Options that are not of the way to the worker are its engine's.
Compiled open_stage(const backend::CompileRequest& request) {
  grpc::StageRequest stage;
  stage.options = request.options;
  PENSTOCK_TRY(auto peer, grpc::read_peer_options(request.device.host, stage.options));
  device::Device there = request.device;
  there.host.clear();
  stage.name = request.name;
  stage.model = request.file;
  if (!stage.model.empty()) {
    PENSTOCK_TRY(stage.data, graph::external_files(stage.model));
  }
  stage.bytes = request.bytes;
  stage.custom_ops = request.custom_ops;
  stage.backend = request.backend;
  stage.device = device::to_string(there);
  stage.flush_denormals = request.flush_denormals;
  stage.peers = request.peers;
  PENSTOCK_TRY(auto model, grpc::open_stage(std::move(peer), std::move(stage)));
  return executable_over(std::move(model));
}

}  // namespace
}  // namespace penstock::remote

extern "C" __attribute__((visibility("default"))) void penstock_remote_compile(
    const penstock::backend::CompileRequest& request, penstock::remote::Compiled& made) {
  made = request.served.empty() ? penstock::remote::open_stage(request)
                                : penstock::remote::open_served(request);
}
