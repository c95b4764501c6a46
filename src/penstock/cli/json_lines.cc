// Nests a tensor's elements as its shape does, and writes a frame's outputs or error as a line.
#include "penstock/cli/json_lines.h"

#include <string>
#include <utility>

#include "penstock/cli/json.h"
#include "penstock/tensor/number.h"

namespace penstock::cli {
namespace {

Json number_at(const Tensor& tensor, std::size_t index) {
  switch (tensor.dtype()) {
    case DType::kBool:
      return tensor.as<std::uint8_t>()[index] != 0;
    case DType::kI64:
      return tensor.as<std::int64_t>()[index];
    case DType::kU64:
      return tensor.as<std::uint64_t>()[index];
    default: {
      const DType dtype = tensor.dtype();
      const double value = number_from_bits(dtype, load_bits(dtype, tensor.data(), index));
      // Infinities and what is no number become null by themselves.
      return is_float(dtype) ? Json(value) : Json(static_cast<std::int64_t>(value));
    }
  }
}

/// The elements from `next` on, below the first `axis` dimensions.
Json nested(const Tensor& tensor, std::size_t axis, std::size_t& next) {
  if (axis == tensor.dims().size()) {
    const std::size_t index = next++;
    if (tensor.kind() == Tensor::Kind::kStrings) return tensor.strings()[index];
    return number_at(tensor, index);
  }
  Json list = Json::array();
  for (std::int64_t i = 0; i < tensor.dims()[axis]; ++i) {
    list.push_back(nested(tensor, axis + 1, next));
  }
  return list;
}

Result<Json> to_json(const Tensor& value) {
  const bool is_complex = value.dtype() == DType::kC64 || value.dtype() == DType::kC128;
  if (value.kind() == Tensor::Kind::kOpaque ||
      (value.kind() == Tensor::Kind::kDense && is_complex)) {
    return invalid_argument(is_complex ? "complex numbers have" : "a map or sparse tensor has",
                            " no form in JSON lines; write it to a folder");
  }
  if (value.kind() == Tensor::Kind::kNone) return Json(nullptr);
  if (value.kind() == Tensor::Kind::kSequence) {
    Json list = Json::array();
    for (const auto& element : value.elements()) {
      PENSTOCK_TRY(auto json, to_json(element));
      list.push_back(std::move(json));
    }
    return list;
  }
  std::size_t next = 0;
  return nested(value, 0, next);
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json line_begun(std::uint64_t frame, std::uint64_t stream, const frames::Files& files) {
  Json line = {{"frame", frame}};
  if (stream != 0) line["stream"] = stream;
  for (const auto& [input, file] : files) line["files"][input] = file;
  return line;
}

}  // namespace

JsonLines::JsonLines(LineFile file, std::vector<plan::TensorInfo> outputs)
    : file_(std::move(file)), outputs_(std::move(outputs)) {}

Result<JsonLines> JsonLines::create(const std::filesystem::path& target,
                                    std::vector<plan::TensorInfo> outputs) {
  PENSTOCK_TRY(auto file, LineFile::create(target));
  return JsonLines(std::move(file), std::move(outputs));
}

Status JsonLines::write(const pipeline::Output& output, const frames::Files& files) {
  Json outputs = Json::object();
  for (std::size_t i = 0; i < output.size(); ++i) {
    auto value = to_json(output[i]);
    if (!value) return std::move(value).error().within({Where::kOutput, outputs_[i].name});
    outputs[outputs_[i].name] = *std::move(value);
  }
  Json line = line_begun(output.tag(), output.stream(), files);
  line["outputs"] = std::move(outputs);
  return file_.write(line_of(line));
}

Status JsonLines::write_error(std::uint64_t frame, const Error& error, const frames::Files& files,
                              std::uint64_t stream) {
  Json line = line_begun(frame, stream, files);
  line["error"] = error_json(error);
  return file_.write(line_of(line));
}

Status JsonLines::finish() {
  return file_.flush();
}

}  // namespace penstock::cli
