// Writes a model of one Relu as Protobuf bytes by hand, for the backend to compile.
#include "penstock/backend/settings.h"

namespace penstock::backend {
namespace {

// Protobuf's wire format, of what is shorter than 128 bytes: ONNX's library stands above this
// module.
std::string field(int number, const std::string& content) {
  const std::string head{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())};
  return head + content;
}
std::string field(int number, char value) {
  return {static_cast<char>(number << 3), value};
}

/// A serialised onnx.ModelProto: y = Relu(x), f32 [1].
std::string smallest_model() {
  const std::string shape = field(1, field(1, '\1'));
  const std::string type = field(1, field(1, '\1') + field(2, shape));
  const std::string node = field(1, "x") + field(2, "y") + field(4, "Relu");
  const auto value = [&](const char* name) { return field(1, name) + field(2, type); };
  const std::string graph =
      field(1, node) + field(2, "graph") + field(11, value("x")) + field(12, value("y"));
  return field(1, '\10') + field(7, graph) + field(8, field(2, '\15'));
}

}  // namespace

Status check_settings(Backend& backend, const std::map<std::string, std::string>& options,
                      const std::vector<std::filesystem::path>& custom_ops) {
  if (options.empty() && custom_ops.empty()) return {};
  if (!backend.describe().unavailable.empty()) return {};
  CompileRequest request;
  request.bytes = smallest_model();
  request.device.cpus = {device::inherited_cpus().front()};
  request.options = options;
  request.custom_ops = custom_ops;
  const auto compiled = backend.compile(request);
  if (compiled) return {};
  const auto& error = compiled.error();
  if (error.code == Code::kInvalidArgument || error.code == Code::kNotFound) return Error(error);
  return {};
}

}  // namespace penstock::backend
