// Writes .npy and .pb files, an archive or JSON lines; refuses a folder with older results.
#include "penstock/cli/outputs.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "penstock/base/ending.h"
#include "penstock/base/files.h"
#include "penstock/base/folder.h"
#include "penstock/base/missing_folder.h"
#include "penstock/cli/inputs.h"
#include "penstock/graph/writer.h"
#include "penstock/plan/package.h"
#include "penstock/tensor/npy.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

Status write_pb(const Tensor& value, const std::string& name, const fs::path& file) {
  PENSTOCK_TRY(const auto bytes, graph::tensor_to_onnx(value, name));
  return write_whole_file(file, bytes);
}

std::string frame_folder(std::uint64_t frame) {
  return fmt::format("{:06}", frame);
}

/// Before any frame runs: all would be lost at the end.
Status check_npz_forms(const fs::path& target, const std::vector<plan::TensorInfo>& outputs) {
  for (const auto& output : outputs) {
    const bool packed = output.type.kind == Type::Kind::kTensor &&
                        output.type.dtype != DType::kString &&
                        output.type.dtype != DType::kUndefined && bits_of(output.type.dtype) < 8;
    if (!packed) continue;
    return Error(invalid_argument("--output '", target.string(), "': NumPy has no type for ",
                                  output.type,
                                  "; give a folder, which gets it as a .pb, or a .jsonl"))
        .within({Where::kOutput, output.name});
  }
  return {};
}

/// As in a folder: of a sequence each element, of an absent optional nothing.
void add_values(const Tensor& value, const std::string& name, NamedTensors& archive) {
  if (value.kind() == Tensor::Kind::kNone) return;
  if (value.kind() != Tensor::Kind::kSequence) {
    archive.emplace_back(name, value.clone());
    return;
  }
  for (std::size_t i = 0; i < value.elements().size(); ++i) {
    add_values(value.elements()[i], fmt::format("{}.{:04}", name, i), archive);
  }
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
Status check_leftovers(const fs::path& target, const std::vector<std::string>& stems,
                       std::optional<std::uint64_t> frames) {
  std::error_code error;
  for (const auto& name : names_in(target, error)) {
    const auto path = target / name;
    const auto frame = frame_of(path);
    const bool frame_remains = frame && (!frames || *frames == 1 || *frame >= *frames);
    const bool output_remains = frames != 1 &&
                                std::ranges::find(stems, path.stem().string()) != stems.end() &&
                                (path.extension() == ".npy" || path.extension() == ".pb");
    if (!frame_remains && !output_remains) continue;
    return make_error(Code::kAlreadyExists, "--output '", target.string(), "': '",
                      path.filename().string(), "' of an earlier run would remain beside the ",
                      frames ? std::to_string(*frames) + " " : "",
                      "frames of this one; remove it, or choose another folder");
  }
  return {};
}

/// A folder called 'results.json' is seldom meant.
Status check_kind(const fs::path& target) {
  constexpr std::string_view kNotWritten[] = {".json", ".csv", ".txt", ".npy",  ".pb",  ".png",
                                              ".jpg",  ".wav", ".mp4", ".html", ".zip", ".gz"};
  std::error_code unknown;
  const auto status = fs::status(target, unknown);
  if (fs::exists(status) && !fs::is_directory(status)) {
    return invalid_argument(
        "--output '", target.string(),
        "': is there, and is no folder: expected a "
        "folder, a file ending in .npz or .jsonl, or - for lines of JSON on standard output");
  }
  if (fs::exists(status) ||
      std::ranges::find(kNotWritten, ending_of(target)) == std::end(kNotWritten))
    return {};
  return invalid_argument("--output '", target.string(), "': no ", target.extension().string(),
                          " is written: expected a folder, which gets a .npy for each output, a "
                          "file ending in .npz or .jsonl (lines of JSON), or - (standard output)");
}

Error overwrites(const fs::path& target) {
  return invalid_argument("--output '", target.string(),
                          "': the frames are read from it; choose another name");
}

/// The elements of a sequence are called <name>.0000 and so on, which may be another output's name.
Status check_elements(const fs::path& target, const std::vector<plan::TensorInfo>& outputs,
                      const std::vector<std::string>& names) {
  const auto is_element = [](const std::string& name, const std::string& of) {
    return name.size() >= of.size() + 5 && name.starts_with(of + ".") &&
           name.find_first_not_of("0123456789", of.size() + 1) == std::string::npos;
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].type.kind == Type::Kind::kTensor) continue;
    const auto found =
        std::ranges::find_if(names, [&](const auto& name) { return is_element(name, names[i]); });
    if (found == names.end()) continue;
    return invalid_argument("--output '", target.string(), "': the elements of output '",
                            outputs[i].name, "' would be called as output '",
                            outputs[static_cast<std::size_t>(found - names.begin())].name,
                            "' is, one of which would be lost; give a .jsonl");
  }
  return {};
}

/// Outputs would take the place of what is read.
Status check_not_read(const fs::path& target, const std::vector<std::string>& stems,
                      std::span<const fs::path> read) {
  std::error_code unknown;
  for (const auto& source : read) {
    if (!fs::is_directory(target, unknown)) {
      if (fs::equivalent(source, target, unknown)) return overwrites(target);
      continue;
    }
    for (const auto& stem : stems) {
      const auto file = target / (stem + ".npy");
      const bool within =
          fs::is_directory(source, unknown) && fs::equivalent(source, target, unknown);
      if (fs::exists(file, unknown) && (within || fs::equivalent(source, file, unknown))) {
        return overwrites(file);
      }
    }
  }
  return {};
}

}  // namespace

Status check_writable(const std::string& option, const fs::path& file, bool in_place,
                      std::string_view begin) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code unknown;
  if (file == "-") {
    return invalid_argument(option, " '-': is not written to standard output; give a file's name");
  }
  if (fs::is_directory(file, unknown)) {
    return make_error(Code::kPermissionDenied, option, " '", file.string(),
                      "': cannot be written: it is a folder; give a file's name");
  }
  PENSTOCK_CHECK_OK(plan::check_results(file));
  if (would_lose(file, begin)) {
    return make_error(
        Code::kAlreadyExists, option, " '", file.string(),
        "': is there, and is no earlier file of this option: it would be lost; choose "
        "another name, or remove it");
  }
  const bool there = in_place && fs::exists(file, unknown);
  if (::access((there ? file : folder).c_str(), W_OK) == 0) return {};
  const std::error_code error(errno, std::generic_category());
  return make_error(Code::kPermissionDenied, option, " '", file.string(),
                    "': cannot be written: ", error.message(), about_missing_folder(folder));
}

Result<OutputWriter> OutputWriter::create(const fs::path& target,
                                          std::vector<plan::TensorInfo> outputs,
                                          std::optional<std::uint64_t> frames,
                                          std::span<const fs::path> read) {
  OutputWriter writer;
  writer.target_ = target;
  writer.outputs_ = std::move(outputs);
  writer.stems_ = frames::file_names_of(writer.outputs_);
  PENSTOCK_CHECK_OK(check_not_read(target, writer.stems_, read));
  writer.several_frames_ = frames != 1;
  writer.is_archive_ = ending_of(target) == ".npz";
  if (target == "-" || ending_of(target) == ".jsonl") {
    if (target != "-") PENSTOCK_CHECK_OK(check_writable("--output", target, true, kJson));
    PENSTOCK_TRY(writer.lines_, JsonLines::create(target, writer.outputs_));
  } else if (writer.is_archive_) {
    for (std::size_t i = 0; i < writer.outputs_.size(); ++i) {
      writer.stems_[i] = writer.outputs_[i].name;
    }
    PENSTOCK_CHECK_OK(check_npz_forms(target, writer.outputs_));
    PENSTOCK_CHECK_OK(check_elements(target, writer.outputs_, writer.stems_));
    PENSTOCK_CHECK_OK(check_writable("--output", target, false, kNpz));
  } else if (!target.empty()) {
    PENSTOCK_CHECK_OK(check_kind(target));
    PENSTOCK_CHECK_OK(check_elements(target, writer.outputs_, writer.stems_));
    PENSTOCK_CHECK_OK(plan::check_results(target));
    PENSTOCK_CHECK_OK(make_folder(target));
    PENSTOCK_CHECK_OK(check_leftovers(target, writer.stems_, frames));
  }
  return writer;
}

Status OutputWriter::write(const pipeline::Output& output, const frames::Files& files) {
  if (lines_) return lines_->write(output, files);
  if (target_.empty()) return {};
  for (std::size_t i = 0; i < output.size(); ++i) {
    // A network may have one value as an output twice: its file is written once.
    const auto first = std::ranges::find(outputs_, outputs_[i].name, &plan::TensorInfo::name);
    if (first != outputs_.begin() + static_cast<std::ptrdiff_t>(i)) continue;
    PENSTOCK_CHECK_OK(write_value_of(output.tag(), i, output[i]));
  }
  return {};
}

Status OutputWriter::write_error(std::uint64_t frame, const Error& error,
                                 const frames::Files& files, std::uint64_t stream) {
  return lines_ ? lines_->write_error(frame, error, files, stream) : Status();
}

Status OutputWriter::write_value_of(std::uint64_t frame, std::size_t output, const Tensor& value) {
  const std::string& name = outputs_[output].name;
  const std::string& stem = stems_[output];
  const std::string folder = several_frames_ ? frame_folder(frame) : "";
  if (is_archive_) {
    add_values(value, folder.empty() ? stem : folder + "/" + stem, archive_);
    return {};
  }
  if (several_frames_) PENSTOCK_CHECK_OK(make_folder(target_ / folder));
  auto written = write_value(value, name, target_ / folder / stem);
  if (!written) return std::move(written).error().within({Where::kOutput, name});
  return {};
}

Status OutputWriter::finish() {
  if (lines_) return lines_->finish();
  if (!is_archive_) return {};
  return write_npz(archive_, target_);
}

}  // namespace penstock::cli
