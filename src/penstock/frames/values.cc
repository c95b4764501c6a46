// Reads .npy, .pb and picture files by their suffix, and checks the values' types and shapes.
#include "penstock/frames/values.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "penstock/base/ending.h"
#include "penstock/base/folder.h"
#include "penstock/base/near_names.h"
#include "penstock/base/words.h"
#include "penstock/frames/sound.h"
#include "penstock/graph/writer.h"
#include "penstock/tensor/image.h"
#include "penstock/tensor/npy.h"
#include "penstock/tensor/reshaping.h"
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

/// The file as it is.
Result<Tensor> read_bytes(const fs::path& file, const Dim& most) {
  std::ifstream in(file, std::ios::binary);
  std::error_code error;
  const auto size = static_cast<std::int64_t>(fs::file_size(file, error));
  if (!in || error) return make_error(Code::kDataLoss, "cannot be read");
  if (most.bound > 0 && size > most.bound) {
    return invalid_argument("expected at most ", counted(most.bound, "byte"), ", found ", size,
                            "; let the input take more, or leave this file out");
  }
  Tensor value = Tensor::allocate(DType::kU8, std::vector{size});
  if (size > 0 && !in.read(reinterpret_cast<char*>(value.data()), size)) {
    return make_error(Code::kDataLoss, "cannot be read");
  }
  return value;
}

/// What makes a file of another kind fit.
std::string about_kind(const fs::path& file) {
  const auto suffix = ending_of(file);
  const auto is = [&](std::initializer_list<const char*> known) {
    return std::ranges::find(known, suffix) != known.end();
  };
  if (suffix == ".npz") return ", which holds one input; give a .npz as '--inputs FILE.npz'";
  if (has_wav_suffix(file)) return "; give a sound as '--input NAME=FILE.wav'";
  if (is({".mp3", ".flac", ".ogg", ".m4a", ".aac", ".opus"})) {
    return concat(" or a .wav: 'ffmpeg -i ", file.filename().string(), " sound.wav' makes one");
  }
  if (is({".mp4", ".avi", ".mov", ".mkv", ".webm"})) {
    return "; 'ffmpeg' makes frames of a video for '--input NAME=-', as 'penstock run --help' "
           "shows";
  }
  return ", a .wav or a folder of such";
}

/// A shell leaves '*' as it is behind '='.
std::string about_pattern(const fs::path& file) {
  const auto name = file.filename().string();
  if (name.find_first_of("*?") == std::string::npos) return "";
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return concat("; patterns are not read, give the folder '", folder.string(), "'");
}

Result<Tensor> read_value(const fs::path& file, const plan::TensorInfo& info) {
  const auto suffix = ending_of(file);
  std::error_code unknown;
  const bool is_there = fs::symlink_status(file, unknown).type() != fs::file_type::not_found;
  if (!is_there && (suffix != ".npy" || !about_pattern(file).empty())) {
    auto advice = about_pattern(file);
    if (advice.empty()) advice = did_you_mean_file(file);
    return not_found("no such file or folder", advice.empty() ? "; check the path" : advice)
        .within({Where::kFile, file.string()});
  }
  if (suffix == ".npy") return read_npy(file, info.type.dtype);
  if (suffix == ".pb") return read_pb(file, info.type);
  if (takes_bytes(info.type)) {
    auto bytes = read_bytes(file, info.type.dims.front());
    if (!bytes) return std::move(bytes).error().within({Where::kFile, file.string()});
    return bytes;
  }
  if (suffix == ".onnx") return read_pb(file, info.type);
  if (has_image_suffix(file)) return read_image(file, info.type);
  return invalid_argument("expected a name ending in ", kEndings, about_kind(file))
      .within({Where::kFile, file.string()});
}

Error no_folder(const fs::path& folder, const std::error_code& error) {
  return not_found("folder '", folder.string(), "': ", error.message());
}

/// As what systems and editors leave beside files.
bool is_hidden(const std::string& name) {
  return name.starts_with('.');
}

bool is_value(const fs::path& file, const Type& type) {
  if (is_hidden(file.filename().string())) return false;
  if (takes_bytes(type)) return ending_of(file) != ".npz";
  return ending_of(file) == ".npy" || ending_of(file) == ".pb" || has_image_suffix(file);
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

std::string in_blocks(const std::string& input, const fs::path& sound) {
  return concat("one sound, whose blocks are the frames: --input ", input, "=", sound.string());
}

/// What of a folder is no value.
struct Others {
  std::string first;      ///< By name, whatever it is.
  std::size_t files = 0;  ///< Those that a person put there.
  std::string file;       ///< The first of these.

  void add(const fs::path& folder, std::string name) {
    std::error_code unknown;
    if (!is_hidden(name) && !fs::is_directory(folder / name, unknown)) {
      ++files;
      if (file.empty() || name < file) file = name;
    }
    if (first.empty() || name < first) first = std::move(name);
  }
  void tell(const fs::path& folder, const Warn& warn) const {
    if (files == 0) return;
    warn(concat(counted(files, "file"), " of '", folder.string(), "'", files == 1 ? " is" : " are",
                " left out, such as '", file, "': expected names ending in ", kEndings));
  }
};

Result<Values> values_in(const fs::path& path, const plan::TensorInfo& info, const Warn& warn) {
  auto folder = std::make_shared<Folder>(path, info);
  std::error_code error;
  bool holds_archives = false;
  std::string sound;  // The first, by name.
  Others others;
  for (auto& name : names_in(path, error)) {
    std::error_code unknown;
    const fs::path file = path / name;
    if (has_wav_suffix(file) && (sound.empty() || name < sound)) sound = name;
    holds_archives = holds_archives || ending_of(file) == ".npz";
    if (is_value(file, info.type) && !fs::is_directory(file, unknown)) {
      folder->names.push_back(std::move(name));
    } else {
      others.add(path, std::move(name));
    }
  }
  if (error) return no_folder(path, error);
  if (folder->names.empty()) {
    return not_found(
        "folder '", path.string(), "': expected files",
        takes_bytes(info.type) ? "" : concat(" ending in ", kEndings),
        ", one for each frame; found ", others.first.empty() ? "none" : "others alone, such as '",
        others.first, others.first.empty() ? "" : "'", ": put them there, or give ",
        sound.empty() ? "a file" : in_blocks(info.name, path / sound),
        holds_archives ? "; a folder of .npz files is for all inputs: --inputs FOLDER" : "");
  }
  if (!takes_bytes(info.type)) others.tell(path, warn);
  std::ranges::sort(folder->names);
  Values values;
  values.reserve(folder->names.size());
  for (std::size_t i = 0; i < folder->names.size(); ++i) values.emplace_back(folder, i);
  return values;
}

/// Whether it could be frames of the type one behind the other, by its shape.
bool holds_frames(const Tensor& value, const Type& type) {
  if (type.kind != Type::Kind::kTensor || !type.ranked || value.dims().empty()) return false;
  auto frame = type;
  const bool beside = value.dims().size() == type.dims.size() + 1;
  if (!beside && (type.dims.empty() || type.dims.front().size != 1)) return false;
  if (beside) frame.dims.insert(frame.dims.begin(), Dim());
  if (!beside) frame.dims.front() = Dim();
  return fits(frame, value);
}

std::string each_apart(CameFrom from) {
  const std::string counts = "its first dimension seems to count frames: ";
  if (from == CameFrom::kStream) return counts + "send the frames one behind the other";
  if (from == CameFrom::kCaller) return counts + "give each as a frame of its own";
  return counts + "give a folder of files, one for each frame";
}

/// How the value gets the type's shape; empty where it has not as many numbers.
std::string reshaped_to(const Type& type, const Tensor& value) {
  std::vector<std::int64_t> wanted;
  std::size_t count = 1;
  for (const auto& dim : type.dims) {
    wanted.push_back(dim.size);
    count *= static_cast<std::size_t>(dim.size);
  }
  const bool as_many = type.ranked && type.fixed() && count == value.count();
  return as_many ? reshaping(wanted, value.dims()) + "; save it so" : std::string();
}

/// What to do about a value that does not fit.
std::string mending(const Type& type, const Tensor& value, CameFrom from) {
  constexpr const char* kGive = "give values of that type and shape, for one frame";
  if (type.kind != Type::Kind::kTensor || value.kind() != Tensor::Kind::kDense) return kGive;
  if (holds_frames(value, type)) return each_apart(from);
  if (from != CameFrom::kArray) return kGive;
  if (is_unprepared_picture(type, value)) {
    return "it seems to be a picture as it was read (height, width, channels): give the picture's "
           "own file, such as a .png, which is made to fit, or save what penstock.io.prepare() "
           "makes of it in Python";
  }
  const auto reshaped = reshaped_to(type, value);
  if (type.dtype == value.dtype()) return reshaped.empty() ? kGive : reshaped;
  const auto conversion = converting(type.dtype);
  if (conversion.empty()) return kGive;
  const bool ranks_differ = type.ranked && value.dims().size() != type.dims.size();
  if (!ranks_differ) return conversion + " and save it again";
  if (!reshaped.empty()) return concat(conversion, "; ", reshaped);
  return concat(conversion, ", give it ", counted(type.dims.size(), "dimension"),
                " and save it again");
}

}  // namespace

Value constant(Tensor value, std::string file) {
  return {std::make_shared<Constant>(std::move(value), std::move(file)), 0};
}

Status check_value(const Tensor& value, const plan::TensorInfo& info, const std::string& where,
                   CameFrom from) {
  auto fits = check_matches(info.type, value);
  if (fits) return fits;
  return std::move(fits)
      .error()
      .within(where)
      .within({Where::kInput, info.name})
      .adding("; " + mending(info.type, value, from));
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
      PENSTOCK_CHECK_OK(check_value(frame[i], inputs[i], where, CameFrom::kCaller));
    }
  }
  return {};
}

Result<Tensor> load_value(const fs::path& file, const plan::TensorInfo& info) {
  auto value = read_value(file, info);
  if (!value) return std::move(value).error().within({Where::kInput, info.name});
  const auto from = ending_of(file) == ".npy" ? CameFrom::kArray : CameFrom::kFile;
  PENSTOCK_CHECK_OK(check_value(*value, info, concat("file '", file.string(), "'"), from));
  return value;
}

bool takes_bytes(const Type& type) {
  return type.kind == Type::Kind::kTensor && type.dtype == DType::kU8 && type.ranked &&
         type.dims.size() == 1 && !type.dims.front().fixed();
}

Result<Values> values_of(const fs::path& path, const plan::TensorInfo& info,
                         const SoundOptions& sound, const Warn& warn) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  if (is_folder || (has_wav_suffix(path) && !takes_bytes(info.type))) {
    auto values = is_folder ? values_in(path, info, warn) : sound_values(path, info.type, sound);
    if (!values) return std::move(values).error().within({Where::kInput, info.name});
    return values;
  }
  PENSTOCK_TRY(auto value, load_value(path, info));
  return Values{constant(std::move(value), path.filename().string())};
}

Result<std::vector<fs::path>> list_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& name : names_in(folder, error)) {
    if (!is_hidden(name)) entries.push_back(folder / name);
  }
  if (error) return no_folder(folder, error);
  std::ranges::sort(entries);
  return entries;
}

}  // namespace penstock::frames
