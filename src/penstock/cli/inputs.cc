#include "penstock/cli/inputs.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/numbers.h"
#include "penstock/graph/writer.h"
#include "penstock/tensor/image.h"
#include "penstock/tensor/npy.h"
#include "penstock/tensor/npz.h"
#include "penstock/tensor/random.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;
using Infos = std::vector<plan::TensorInfo>;

/// Values of each input, by position, in the order of the frames.
using Columns = std::map<std::size_t, std::vector<Tensor>>;

Result<Tensor> read_pb(const fs::path& file, const Type& type) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return not_found("file '", file.string(), "': cannot be read");
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  auto value = graph::value_from_onnx(bytes, type);
  if (!value) return std::move(value).error().within("file '" + file.string() + "'");
  return value;
}

Result<Tensor> read_value(const fs::path& file, const plan::TensorInfo& info) {
  const auto suffix = file.extension();
  if (suffix == ".npy") return read_npy(file, info.type.dtype);
  if (suffix == ".pb" || suffix == ".onnx") return read_pb(file, info.type);
  if (has_image_suffix(file)) return read_image(file, info.type);
  return invalid_argument("file '", file.string(),
                          "': expected a name ending in .npy, .pb, .png, .jpg, .bmp or .ppm");
}

Status check_value(const Tensor& value, const plan::TensorInfo& info, const std::string& where) {
  auto fits = check_matches(info.type, value);
  if (fits) return fits;
  return std::move(fits).error().within(concat("input '", info.name, "': ", where));
}

Result<Tensor> load(const fs::path& file, const plan::TensorInfo& info) {
  auto value = read_value(file, info);
  if (!value) return std::move(value).error().within(concat("input '", info.name, "'"));
  PENSTOCK_CHECK_OK(check_value(*value, info, concat("file '", file.string(), "'")));
  return value;
}

std::string names_of(const Infos& inputs) {
  return join(inputs, ", ", [](const auto& info) { return "'" + info.name + "'"; });
}

Status add_named_files(const Infos& inputs, const std::vector<std::string>& files,
                       Columns& columns) {
  for (const auto& text : files) {
    // Names may hold '=', and so may paths: the longest name that is an input wins.
    std::size_t best = inputs.size();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool longer = best == inputs.size() || inputs[i].name.size() > inputs[best].name.size();
      if (longer && text.starts_with(inputs[i].name + "=")) best = i;
    }
    if (best == inputs.size()) {
      PENSTOCK_TRY(const auto pair, split_pair(text, false, "--input", "NAME=FILE"));
      return not_found("--input: no input '", pair.first, "'; the inputs are ", names_of(inputs));
    }
    const fs::path file = text.substr(inputs[best].name.size() + 1);
    PENSTOCK_TRY(auto value, load(file, inputs[best]));
    columns[best].push_back(std::move(value));
  }
  return {};
}

/// "12/x" of an archive of several frames: the frame and the name; else frame 0.
std::pair<std::string, std::string> frame_and_name(const std::string& entry, const Infos& inputs) {
  const auto is_input = [&](std::string_view name) {
    return std::ranges::find(inputs, name, &plan::TensorInfo::name) != inputs.end();
  };
  const auto slash = entry.find('/');
  const bool numbered = slash != std::string::npos && slash > 0 &&
                        std::ranges::all_of(entry.substr(0, slash),
                                            [](unsigned char c) { return std::isdigit(c) != 0; });
  if (is_input(entry) || !numbered) return {"", entry};
  return {entry.substr(0, slash), entry.substr(slash + 1)};
}

Status add_archive(const Infos& inputs, const fs::path& file, Columns& columns) {
  std::map<std::string, DType> expected;
  for (const auto& info : inputs) expected[info.name] = info.type.dtype;
  PENSTOCK_TRY(auto tensors, read_npz(file, expected));
  const std::string place = concat("file '", file.string(), "'");
  for (auto& [entry, tensor] : tensors) {
    const auto name = frame_and_name(entry, inputs).second;
    const auto found = std::ranges::find(inputs, name, &plan::TensorInfo::name);
    if (found == inputs.end()) {
      return not_found(place, ": array '", entry, "' is no input; the inputs are ",
                       names_of(inputs));
    }
    PENSTOCK_CHECK_OK(check_value(tensor, *found, place));
    columns[static_cast<std::size_t>(found - inputs.begin())].push_back(std::move(tensor));
  }
  if (tensors.empty()) return invalid_argument(place, ": holds no arrays");
  return {};
}

/// The position of the input that a file of a folder is for: "<name>.npy", or "input_<i>.pb" as
/// ONNX's own test data have it.
std::optional<std::size_t> input_of(const Infos& inputs, const fs::path& file) {
  const std::string stem = file.stem().string();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (stem == inputs[i].name || stem == file_name_of(inputs[i].name)) return i;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (stem == concat("input_", i)) return i;
  }
  return std::nullopt;
}

Result<std::vector<fs::path>> list_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  if (error) return not_found("folder '", folder.string(), "': ", error.message());
  std::ranges::sort(entries);
  return entries;
}

/// Adds the files of one frame. \returns whether there was any.
Result<bool> add_files(const Infos& inputs, const std::vector<fs::path>& entries,
                       Columns& columns) {
  bool any = false;
  for (const auto& entry : entries) {
    const auto i = input_of(inputs, entry);
    if (!i || fs::is_directory(entry)) continue;
    PENSTOCK_TRY(auto value, load(entry, inputs[*i]));
    columns[*i].push_back(std::move(value));
    any = true;
  }
  return any;
}

Status add_folder(const Infos& inputs, const fs::path& folder, Columns& columns) {
  PENSTOCK_TRY(const auto entries, list_folder(folder));
  PENSTOCK_TRY(bool any, add_files(inputs, entries, columns));
  for (const auto& entry : entries) {
    if (any || !fs::is_directory(entry)) continue;
    PENSTOCK_TRY(const auto files, list_folder(entry));
    PENSTOCK_TRY(const bool found, add_files(inputs, files, columns));
    if (!found) {
      return not_found("folder '", entry.string(), "': holds no file of an input; expected ",
                       file_name_of(inputs.front().name), ".npy and so on, of ", names_of(inputs));
    }
  }
  if (columns.empty()) {
    return not_found("folder '", folder.string(),
                     "': holds no file of an input; expected <name>.npy, .pb or a picture of ",
                     names_of(inputs), ", or a folder of them for each frame");
  }
  return {};
}

Result<Columns> read_columns(const Infos& inputs, const InputArguments& arguments) {
  Columns columns;
  PENSTOCK_CHECK_OK(add_named_files(inputs, arguments.files, columns));
  if (arguments.all.empty()) return columns;
  Columns more;
  if (arguments.all.extension() == ".npz") {
    PENSTOCK_CHECK_OK(add_archive(inputs, arguments.all, more));
  } else if (fs::is_directory(arguments.all)) {
    PENSTOCK_CHECK_OK(add_folder(inputs, arguments.all, more));
  } else {
    return not_found("--inputs: expected a folder or a .npz file, found '", arguments.all.string(),
                     "'");
  }
  columns.merge(more);  // What --input names wins.
  return columns;
}

/// The inputs that no file gives.
Infos without(const Infos& inputs, const Columns& columns) {
  Infos rest;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!columns.contains(i)) rest.push_back(inputs[i]);
  }
  return rest;
}

}  // namespace

void add_random_options(CLI::App* command, InputArguments& arguments) {
  command->add_option("--seed", arguments.seed, "Of random inputs")
      ->capture_default_str()
      ->check(whole_number());
  command
      ->add_option("--integer-limit", arguments.integer_limit,
                   "Random integers of 16 bits and more stay under this")
      ->capture_default_str()
      ->check(positive_number());
}

void add_input_options(CLI::App* command, InputArguments& arguments) {
  add_list(command, "--input", arguments.files,
           "NAME=FILE (.npy, .pb, .png, .jpg, .bmp, .ppm); repeat for more inputs, and for more "
           "frames");
  command->add_option("--inputs", arguments.all,
                      "A folder of <name>.npy (.pb, pictures), or of such folders, one a frame; or "
                      "a .npz");
  add_random_options(command, arguments);
}

bool has_files(const InputArguments& arguments) {
  return !arguments.files.empty() || !arguments.all.empty();
}

Result<std::vector<FrameInputs>> read_frames(const Infos& inputs, const InputArguments& arguments) {
  PENSTOCK_TRY(const auto columns, read_columns(inputs, arguments));
  std::size_t count = 1;
  for (const auto& [i, values] : columns) count = std::max(count, values.size());
  for (const auto& [i, values] : columns) {
    if (values.size() == 1 || values.size() == count) continue;
    return invalid_argument("input '", inputs[i].name, "': expected 1 or ", count,
                            " values, as many as the other inputs have, found ", values.size());
  }
  PENSTOCK_TRY(auto frames, random_frames(without(inputs, columns), arguments, count));
  for (std::size_t frame = 0; frame < count; ++frame) {
    for (const auto& [i, values] : columns) {
      const auto at = frames[frame].begin() + static_cast<std::ptrdiff_t>(i);
      frames[frame].insert(at, values[values.size() == 1 ? 0 : frame]);
    }
  }
  return frames;
}

Result<FrameInputs> random_frame(const Infos& inputs, const InputArguments& arguments,
                                 std::uint64_t number) {
  Random seeds(arguments.seed);
  const std::uint64_t base = seeds.bits() + number * 0x9E3779B97F4A7C15U;
  Random random(base);
  FrameInputs frame;
  for (const auto& info : inputs) {
    auto value = random_tensor(info.type, random, {arguments.integer_limit, 1});
    if (!value) return std::move(value).error().within(concat("input '", info.name, "'"));
    frame.push_back(*std::move(value));
  }
  return frame;
}

Result<std::vector<FrameInputs>> random_frames(const Infos& inputs, const InputArguments& arguments,
                                               std::uint64_t count) {
  std::vector<FrameInputs> frames;
  for (std::uint64_t number = 0; number < count; ++number) {
    PENSTOCK_TRY(auto frame, random_frame(inputs, arguments, number));
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::string file_name_of(const std::string& tensor) {
  std::string name = tensor;
  for (char& c : name) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  if (name.empty() || name.front() == '.') name.insert(name.begin(), '_');
  return name;
}

}  // namespace penstock::cli
