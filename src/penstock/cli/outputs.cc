// Writes .npy and .pb files, an archive or JSON lines; refuses a folder with older results.
#include "penstock/cli/outputs.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "penstock/base/files.h"
#include "penstock/cli/inputs.h"
#include "penstock/graph/writer.h"
#include "penstock/tensor/npy.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

bool has_npy_form(const Tensor& value) {
  return value.kind() == Tensor::Kind::kStrings ||
         (value.kind() == Tensor::Kind::kDense && bits_of(value.dtype()) >= 8);
}

Status write_pb(const Tensor& value, const std::string& name, const fs::path& file) {
  PENSTOCK_TRY(const auto bytes, graph::tensor_to_onnx(value, name));
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << bytes;
  out.close();
  if (out) return {};
  return make_error(Code::kPermissionDenied, "cannot be written")
      .within({Where::kFile, file.string()});
}

std::string frame_folder(std::uint64_t frame) {
  return fmt::format("{:06}", frame);
}

/// A sequence is a file for each element; an absent optional none.
Status write_value(const Tensor& value, const std::string& name, const fs::path& stem) {
  if (value.kind() == Tensor::Kind::kNone) return {};
  if (value.kind() == Tensor::Kind::kSequence) {
    for (std::size_t i = 0; i < value.elements().size(); ++i) {
      const fs::path element = stem.string() + fmt::format(".{:04}", i);
      PENSTOCK_CHECK_OK(write_value(value.elements()[i], name, element));
    }
    return {};
  }
  if (has_npy_form(value)) return write_npy(value, stem.string() + ".npy");
  return write_pb(value, name, stem.string() + ".pb");
}

/// The frame that a folder of `write()` is for.
std::optional<std::uint64_t> frame_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  std::uint64_t frame = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), frame);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && name == frame_folder(frame) ? std::optional(frame) : std::nullopt;
}

/// Results of two runs side by side would be taken for those of one.
Status check_leftovers(const fs::path& target, const std::vector<plan::TensorInfo>& outputs,
                       std::optional<std::uint64_t> frames) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(target, error)) {
    const auto& path = entry.path();
    const auto frame = frame_of(path);
    const bool frame_remains = frame && (!frames || *frames == 1 || *frame >= *frames);
    const bool output_remains =
        frames != 1 && std::ranges::any_of(outputs, [&](const auto& output) {
          return path.stem() == frames::file_name_of(output.name) &&
                 (path.extension() == ".npy" || path.extension() == ".pb");
        });
    if (!frame_remains && !output_remains) continue;
    return make_error(Code::kAlreadyExists, "--output '", target.string(), "': '",
                      path.filename().string(), "' of an earlier run would remain beside the ",
                      frames ? std::to_string(*frames) + " " : "",
                      "frames of this one; remove it, or choose another folder");
  }
  return {};
}

}  // namespace

Result<OutputWriter> OutputWriter::create(const fs::path& target,
                                          std::vector<plan::TensorInfo> outputs,
                                          std::optional<std::uint64_t> frames) {
  OutputWriter writer;
  writer.target_ = target;
  writer.outputs_ = std::move(outputs);
  writer.several_frames_ = frames != 1;
  writer.is_archive_ = target.extension() == ".npz";
  if (target == "-" || target.extension() == ".jsonl") {
    PENSTOCK_TRY(writer.lines_, JsonLines::create(target, writer.outputs_));
  } else if (!target.empty() && !writer.is_archive_) {
    PENSTOCK_CHECK_OK(make_folder(target));
    PENSTOCK_CHECK_OK(check_leftovers(target, writer.outputs_, frames));
  }
  return writer;
}

Status OutputWriter::write(const pipeline::Output& output, const frames::Files& files) {
  if (lines_) return lines_->write(output, files);
  if (target_.empty() || !output.ok()) return {};
  for (std::size_t i = 0; i < output.size(); ++i) {
    PENSTOCK_CHECK_OK(write_value_of(output.tag(), i, output[i]));
  }
  return {};
}

Status OutputWriter::write_refused(std::uint64_t frame, const Error& error,
                                   const frames::Files& files) {
  return lines_ ? lines_->write(frame, error, files) : Status();
}

Status OutputWriter::write_value_of(std::uint64_t frame, std::size_t output, const Tensor& value) {
  const std::string& name = outputs_[output].name;
  const std::string folder = several_frames_ ? frame_folder(frame) : "";
  if (is_archive_) {
    archive_.emplace_back(folder.empty() ? name : folder + "/" + name, value.clone());
    return {};
  }
  if (several_frames_) PENSTOCK_CHECK_OK(make_folder(target_ / folder));
  auto written = write_value(value, name, target_ / folder / frames::file_name_of(name));
  if (!written) return std::move(written).error().within({Where::kOutput, name});
  return {};
}

Status OutputWriter::finish() {
  if (lines_) return lines_->finish();
  if (!is_archive_) return {};
  return write_npz(archive_, target_);
}

}  // namespace penstock::cli
