// Reads .npy, .pb and picture files by their suffix, and checks the values' types and shapes.
#include "penstock/frames/values.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/frames/sound.h"
#include "penstock/graph/writer.h"
#include "penstock/tensor/image.h"
#include "penstock/tensor/npy.h"
#include "penstock/tensor/wav.h"

namespace penstock::frames {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEndings = ".npy, .pb, .png, .jpg, .bmp or .ppm";

Result<Tensor> read_pb(const fs::path& file, const Type& type) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return not_found("cannot be read").within({Where::kFile, file.string()});
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  auto value = graph::value_from_onnx(bytes, type);
  if (!value) return std::move(value).error().within({Where::kFile, file.string()});
  return value;
}

Result<Tensor> read_value(const fs::path& file, const plan::TensorInfo& info) {
  const auto suffix = file.extension();
  if (suffix == ".npy") return read_npy(file, info.type.dtype);
  if (suffix == ".pb" || suffix == ".onnx") return read_pb(file, info.type);
  if (has_image_suffix(file)) return read_image(file, info.type);
  return invalid_argument("expected a name ending in ", kEndings,
                          suffix == ".npz"
                              ? ", which holds one input; give a .npz as '--inputs FILE.npz'"
                          : has_wav_suffix(file) ? "; give a sound as '--input NAME=FILE.wav'"
                                                 : ", a .wav or a folder of such")
      .within({Where::kFile, file.string()});
}

Error no_folder(const fs::path& folder, const std::error_code& error) {
  return not_found("folder '", folder.string(), "': ", error.message());
}

bool is_value(const fs::path& file) {
  return file.extension() == ".npy" || file.extension() == ".pb" || has_image_suffix(file);
}

/// The files of a folder that are values, as little of each as may be: there may be millions.
struct Folder final : Origin {
  Folder(fs::path folder, plan::TensorInfo input)
      : path(std::move(folder)), info(std::move(input)) {}
  [[nodiscard]] Result<Tensor> read(std::size_t number) const override {
    return load_value(path / names[number], info);
  }
  [[nodiscard]] std::string file(std::size_t number) const override { return names[number]; }

  fs::path path;
  plan::TensorInfo info;
  std::vector<std::string> names;  ///< In their order.
};

struct Constant final : Origin {
  Constant(Tensor of_all, std::string file) : value(std::move(of_all)), name(std::move(file)) {}
  [[nodiscard]] Result<Tensor> read(std::size_t /*number*/) const override { return value; }
  [[nodiscard]] std::string file(std::size_t /*number*/) const override { return name; }

  Tensor value;
  std::string name;
};

Result<Values> values_in(const fs::path& path, const plan::TensorInfo& info) {
  auto folder = std::make_shared<Folder>(path, info);
  std::error_code error;
  bool holds_archives = false;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    std::error_code unknown;
    holds_archives = holds_archives || entry.path().extension() == ".npz";
    if (is_value(entry.path()) && !entry.is_directory(unknown))
      folder->names.push_back(entry.path().filename().string());
  }
  if (error) return no_folder(path, error);
  if (folder->names.empty()) {
    return not_found(
        "folder '", path.string(), "': expected files ending in ", kEndings,
        ", one for each frame; found none: put them there, or give a file",
        holds_archives ? "; a folder of .npz files is for all inputs: --inputs FOLDER" : "");
  }
  std::ranges::sort(folder->names);
  Values values;
  values.reserve(folder->names.size());
  for (std::size_t i = 0; i < folder->names.size(); ++i) values.emplace_back(folder, i);
  return values;
}

}  // namespace

Value constant(Tensor value, std::string file) {
  return {std::make_shared<Constant>(std::move(value), std::move(file)), 0};
}

Status check_value(const Tensor& value, const plan::TensorInfo& info, const std::string& where) {
  auto fits = check_matches(info.type, value);
  if (fits) return fits;
  return std::move(fits)
      .error()
      .within(where)
      .within({Where::kInput, info.name})
      .adding("; give values of that type and shape, one frame's");
}

Status check_frames(const std::vector<plan::TensorInfo>& inputs, const std::vector<Frame>& frames) {
  for (std::size_t number = 0; number < frames.size(); ++number) {
    const auto& frame = frames[number];
    const std::string where = concat("frame ", number);
    if (frame.size() != inputs.size()) {
      return invalid_argument(where, ": expected ", counted(inputs.size(), "value"), " (",
                              quoted_names(inputs), "), found ", frame.size());
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      PENSTOCK_CHECK_OK(check_value(frame[i], inputs[i], where));
    }
  }
  return {};
}

Result<Tensor> load_value(const fs::path& file, const plan::TensorInfo& info) {
  auto value = read_value(file, info);
  if (!value) return std::move(value).error().within({Where::kInput, info.name});
  PENSTOCK_CHECK_OK(check_value(*value, info, concat("file '", file.string(), "'")));
  return value;
}

Result<Values> values_of(const fs::path& path, const plan::TensorInfo& info, std::uint64_t hop) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  if (is_folder || has_wav_suffix(path)) {
    auto values = is_folder ? values_in(path, info) : sound_values(path, info.type, hop);
    if (!values) return std::move(values).error().within({Where::kInput, info.name});
    return values;
  }
  PENSTOCK_TRY(auto value, load_value(path, info));
  return Values{constant(std::move(value), path.filename().string())};
}

Result<std::vector<fs::path>> list_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  if (error) return no_folder(folder, error);
  std::ranges::sort(entries);
  return entries;
}

}  // namespace penstock::frames
