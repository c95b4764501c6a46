// Checks device, threads and file of a request, and reads and writes precisions by name.
#include "penstock/backend/request.h"

#include <array>
#include <filesystem>
#include <utility>

namespace penstock::backend {
namespace {

constexpr std::array<std::pair<Precision, std::string_view>, 4> kPrecisions{{
    {Precision::kF32, "f32"},
    {Precision::kBF16, "bf16"},
    {Precision::kF16, "f16"},
    {Precision::kI8, "i8"},
}};

}  // namespace

std::string_view to_string(Precision precision) {
  return kPrecisions.at(static_cast<std::size_t>(precision)).second;
}

Result<Precision> parse_precision(std::string_view name) {
  for (const auto& [precision, known] : kPrecisions) {
    if (known == name) return precision;
  }
  return invalid_argument("precision: expected f32, bf16, f16 or i8, found '", name, "'");
}

Result<CompileRequest> with_precision(CompileRequest request) {
  const auto named = request.options.extract(kPrecisionOption);
  if (named.empty()) return request;
  PENSTOCK_TRY(request.precision, parse_precision(named.mapped()));
  return request;
}

Status check_on_cpu(const CompileRequest& request, std::string_view backend) {
  if (!request.device.is_local_cpu()) {
    return make_error(Code::kUnimplemented, "backend '", backend,
                      "' runs on CPUs of this machine, found device '",
                      device::to_string(request.device), "'");
  }
  if (request.threads < 1) {
    return invalid_argument("expected at least 1 thread, found ", request.threads);
  }
  if (request.file.empty()) {
    if (request.bytes.empty()) return invalid_argument("neither a model file nor bytes given");
    return {};
  }
  std::error_code ignored;
  if (std::filesystem::exists(request.file, ignored)) return {};
  return not_found("no such file; check the path").within({Where::kModel, request.file.string()});
}

Error in_model(Error error, const CompileRequest& request) {
  const std::string file = request.file.string();
  if (!file.empty() && error.find(Where::kModel) == nullptr) {
    error = std::move(error).within({Where::kModel, file});
  }
  return request.name.empty() ? error : std::move(error).within(request.name);
}

}  // namespace penstock::backend
