// Matches files, folders and .npz arrays to inputs by name, and compares bound inputs' values.
#include "penstock/frames/given.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "penstock/base/ending.h"
#include "penstock/base/words.h"
#include "penstock/frames/archives.h"
#include "penstock/tensor/image.h"
#include "penstock/tensor/wav.h"

namespace penstock::frames {
namespace {

namespace fs = std::filesystem;
using Infos = std::vector<plan::TensorInfo>;
using Names = std::vector<std::string>;

Status take_standard_input(const Infos& inputs, std::size_t input, GivenInputs& given) {
  if (given.live) {
    return invalid_argument("--input: standard input ('-') feeds one input once, found it for '",
                            inputs[*given.live].name, "' and '", inputs[input].name, "'");
  }
  given.live = input;
  return {};
}

Status add_named_files(const Infos& inputs, const SourceOptions& options, GivenInputs& given) {
  for (const auto& text : options.files) {
    const auto named = input_of(inputs, text);
    if (!named) {
      const auto state = std::ranges::find_if(
          options.states, [&](const auto& name) { return text.starts_with(name + "="); });
      return state == options.states.end() ? named.error() : state_refused("--input:", *state);
    }
    const auto best = *named;
    const std::string path = text.substr(inputs[best].name.size() + 1);
    if (path == "-") {
      PENSTOCK_CHECK_OK(take_standard_input(inputs, best, given));
      continue;
    }
    PENSTOCK_TRY(auto values, values_of(path, inputs[best], options.sound, options.warn));
    std::ranges::move(values, std::back_inserter(given.columns[best]));
  }
  return {};
}

/// A frame of an archive by its number: how many digits, and these, without zeros before them.
using Number = std::pair<std::size_t, std::string>;

/// "12/x" of an archive of several frames: the frame and the name; else the name alone.
std::pair<std::optional<Number>, std::string> frame_and_name(const std::string& entry,
                                                             const Infos& inputs) {
  const auto is_input = [&](std::string_view name) {
    return std::ranges::find(inputs, name, &plan::TensorInfo::name) != inputs.end();
  };
  const auto slash = entry.find('/');
  const bool numbered = slash != std::string::npos && slash > 0 &&
                        std::ranges::all_of(entry.substr(0, slash),
                                            [](unsigned char c) { return std::isdigit(c) != 0; });
  if (is_input(entry) || !numbered) return {std::nullopt, entry};
  const auto digits = entry.substr(std::min(entry.find_first_not_of('0'), slash - 1), slash);
  const auto number = digits.substr(0, digits.find('/'));
  return {Number{number.size(), number}, entry.substr(slash + 1)};
}

/// The values of each frame in the order of the numbers. \error kInvalidArgument  a frame lacks an
/// input that another has.
Status add_rows(const Infos& inputs, std::map<Number, std::map<std::size_t, Tensor>> rows,
                Columns& columns) {
  for (const auto& [number, row] : rows) {
    for (const auto& [i, value] : row) columns.try_emplace(i);
  }
  for (auto& [number, row] : rows) {
    for (auto& [i, values] : columns) {
      const auto value = row.find(i);
      if (value == row.end()) {
        return invalid_argument("expected an array '", number.second, "/", inputs[i].name,
                                "', as other frames have that input, found none");
      }
      values.push_back(constant(std::move(value->second)));
    }
  }
  return {};
}

Status add_archive(const Infos& inputs, const Names& states, const fs::path& file,
                   Columns& columns) {
  PENSTOCK_TRY(auto tensors, read_arrays(inputs, file));
  const std::string place = concat("file '", file.string(), "'");
  std::map<Number, std::map<std::size_t, Tensor>> rows;
  Columns whole;  // Of arrays without a number.
  for (auto& [entry, tensor] : tensors) {
    const auto [number, name] = frame_and_name(entry, inputs);
    PENSTOCK_TRY(const auto i, input_of_array(inputs, states, entry, name, tensor, place));
    if (!number) {
      whole[i].push_back(constant(std::move(tensor)));
    } else if (!rows[*number].try_emplace(i, std::move(tensor)).second) {
      return invalid_argument(place, ": array '", entry, "': that frame has the input already");
    }
  }
  if (Status added = add_rows(inputs, std::move(rows), columns); !added) {
    return std::move(added).error().within(place);
  }
  columns.merge(whole);
  if (!whole.empty()) {
    const auto& name = inputs[whole.begin()->first].name;
    return invalid_argument(place, ": array '", name, "': frames have that input already, as ",
                            "'<frame>/", name, "'; leave one of them out");
  }
  return {};
}

/// The file of a "NAME=FILE" that is taken as a sound: of an input of bytes none is.
std::optional<std::string> sound_of(const Infos& inputs, const std::string& text) {
  const auto named = input_of(inputs, text);
  if (!named || takes_bytes(inputs[*named].type)) return std::nullopt;
  auto file = text.substr(inputs[*named].name.size() + 1);
  return has_wav_suffix(file) ? std::optional(std::move(file)) : std::nullopt;
}

/// With '_' for what is not a letter, digit, '.', '_' or '-'.
std::string plain_name(std::string name) {
  for (char& c : name) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  if (name.empty() || name.front() == '.') name.insert(name.begin(), '_');
  return name;
}

/// The position of the input that a file of a folder is for: "<name>.npy", or "input_<i>.pb" as
/// ONNX's own test data have it.
std::optional<std::size_t> input_of_file(const Infos& inputs, const Names& order,
                                         const fs::path& file) {
  const std::string stem = file.stem().string();
  const auto names = file_names_of(inputs);
  const auto found = std::ranges::find(names, stem);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto named = std::ranges::find(order, inputs[i].name);
    const auto number = named == order.end() ? i : static_cast<std::size_t>(named - order.begin());
    if (stem == concat("input_", number)) return i;
  }
  return std::nullopt;
}

/// Adds the files of one frame. \returns whether there was any.
Result<bool> add_files(const Infos& inputs, const Names& order,
                       const std::vector<fs::path>& entries, Columns& columns) {
  bool any = false;
  for (const auto& entry : entries) {
    if (ending_of(entry) == ".npz") continue;  // A frame's, whatever its name.
    const auto i = input_of_file(inputs, order, entry);
    if (!i || fs::is_directory(entry)) continue;
    PENSTOCK_TRY(auto value, load_value(entry, inputs[*i]));
    columns[*i].push_back(constant(std::move(value), entry.filename().string()));
    any = true;
  }
  return any;
}

/// Beside files of one frame stands no folder of another: which of them are meant, nobody can tell.
Status check_no_frame(const Infos& inputs, const Names& order, const fs::path& entry,
                      const std::vector<fs::path>& files) {
  const auto is_input = [&](const fs::path& file) {
    std::error_code unknown;
    return ending_of(file) != ".npz" && input_of_file(inputs, order, file) &&
           !fs::is_directory(file, unknown);
  };
  const auto found = std::ranges::find_if(files, is_input);
  if (found == files.end()) return {};
  return invalid_argument("folder '", entry.string(),
                          "': expected no file of an input, as some lie ", "beside it, found '",
                          found->filename().string(), "': put each frame into a folder of its own");
}

/// What to write where pictures lie there that have no input's name.
std::string about_pictures(const Infos& inputs, const fs::path& folder,
                           const std::vector<fs::path>& entries) {
  if (inputs.empty() || std::ranges::none_of(entries, has_image_suffix)) return "";
  return concat("; of a folder of pictures, one for each frame: --input ", inputs.front().name, "=",
                folder.string());
}

Status add_folder(const Infos& inputs, const SourceOptions& options, Columns& columns) {
  const auto& folder = options.all;
  const auto& order = options.order;
  PENSTOCK_TRY(const auto entries, list_folder(folder));
  PENSTOCK_TRY(bool any, add_files(inputs, order, entries, columns));
  std::size_t frames = 0;
  for (const auto& entry : entries) {
    if (!fs::is_directory(entry)) continue;
    const auto files = list_folder(entry);
    if (any) {
      if (files) PENSTOCK_CHECK_OK(check_no_frame(inputs, order, entry, *files));
      continue;
    }
    if (!files) return files.error();
    PENSTOCK_TRY(const bool found, add_files(inputs, order, *files, columns));
    if (!found) {
      return not_found("folder '", entry.string(), "': holds no file of an input; expected ",
                       file_names_of(inputs).front(), ".npy and so on, of ", quoted_names(inputs));
    }
    ++frames;
    for (const auto& [i, values] : columns) {
      if (values.size() == frames) continue;
      return invalid_argument("folder '", entry.string(), "': expected in each frame's folder one ",
                              "file of the same inputs, found ", values.size(), " of input '",
                              inputs[i].name, "' in the first ", frames);
    }
  }
  if (columns.empty()) {
    if (auto archives = archives_among(entries); !archives.empty()) {
      PENSTOCK_TRY(columns,
                   columns_of_archives(inputs, options.states, folder, std::move(archives)));
      return {};
    }
    return not_found("folder '", folder.string(),
                     "': holds no file of an input; expected <name>.npy, .pb or a picture of ",
                     quoted_names(inputs), ", or a folder of them or a .npz for each frame",
                     about_pictures(inputs, folder, entries));
  }
  return {};
}

/// What is given of the inputs from `first` on must be their values; frames go without them.
Status take_bound(std::size_t first, const Infos& known, const plan::BoundValues& bound,
                  GivenInputs& given) {
  if (given.live && *given.live >= first) {
    return invalid_argument("--input: '", known[*given.live].name,
                            "' is bound to a value; leave it out");
  }
  for (auto i = first; i < known.size(); ++i) {
    const auto column = given.columns.extract(i);
    if (column.empty()) continue;
    for (const auto& read : column.mapped()) {
      PENSTOCK_TRY(const auto value, read());
      PENSTOCK_CHECK_OK(plan::check_bound(bound, known[i].name, value));
    }
  }
  return {};
}

}  // namespace

// Names may hold '=', and so may paths: the longest name that is an input wins.
Result<std::size_t> input_of(const Infos& inputs, const std::string& text) {
  std::size_t best = inputs.size();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& name = inputs[i].name;
    const bool longer = best == inputs.size() || name.size() > inputs[best].name.size();
    if (longer && text.starts_with(name + "=") && text.size() > name.size() + 1) best = i;
  }
  if (best < inputs.size()) return best;
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    const bool is_file = equals == std::string::npos && !inputs.empty();
    return invalid_argument("--input: expected NAME=FILE, found '", text, "'; the inputs are ",
                            quoted_names(inputs),
                            is_file ? concat(": write --input ", inputs[0].name, "=", text) : "");
  }
  return not_found("--input: no input '", text.substr(0, equals), "'; the inputs are ",
                   quoted_names(inputs));
}

std::vector<fs::path> paths_of(const Infos& inputs, const SourceOptions& options) {
  std::vector<fs::path> paths;
  const auto known = nameable(inputs, options);
  for (const auto& text : options.files) {
    const auto input = input_of(known, text);
    if (!input) continue;
    auto path = text.substr(known[*input].name.size() + 1);
    if (path != "-") paths.emplace_back(std::move(path));
  }
  if (options.all.empty()) return paths;
  std::error_code unknown;
  if (!fs::is_directory(options.all, unknown)) {
    paths.emplace_back(options.all);
    return paths;
  }
  // Of a folder those that have the name of an input are read, whatever else lies there.
  for (const auto& name : file_names_of(known)) {
    paths.push_back(fs::path(options.all) / (name + ".npy"));
  }
  return paths;
}

bool has_files(const SourceOptions& options) {
  return !options.files.empty() || !options.all.empty();
}

void note_rates(const Infos& inputs, const SourceOptions& options) {
  const Infos known = nameable(inputs, options);
  std::map<std::uint32_t, std::string> files;  // The first of each rate.
  for (const auto& text : options.files) {
    auto file = sound_of(known, text);
    if (!file) continue;
    const auto sound = WavFile::open(*file);
    if (sound && sound->rate() > 0) files.try_emplace(sound->rate(), *std::move(file));
  }
  if (files.size() < 2 || options.sound.sample_rate > 0) return;
  const auto told = [](const auto& one) {
    return concat("'", one.second, "' has ", one.first, " samples a second");
  };
  options.warn(concat("the sounds differ: ", join(files, ", ", told),
                      "; all are taken as they are, --sample-rate N takes one rate alone"));
}

Names order_of(const Infos& inputs, std::vector<std::pair<std::size_t, std::string>> bound) {
  Names order;
  for (const auto& info : inputs) order.push_back(info.name);
  std::ranges::stable_sort(bound, {}, &std::pair<std::size_t, std::string>::first);
  for (auto& [position, name] : bound) {
    const auto place = std::min(position, order.size());
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), std::move(name));
  }
  return order;
}

Result<SourceOptions> with_bound(SourceOptions options, const plan::Package& package) {
  PENSTOCK_TRY(options.bound, plan::read_bound_values(package.plan, package.folder));
  std::vector<std::pair<std::size_t, std::string>> places;
  for (const auto& input : package.plan.bound_inputs) {
    places.emplace_back(input.position, input.name);
  }
  for (const auto& state : package.plan.states) options.states.push_back(state.to);
  options.order = order_of(package.plan.inputs, std::move(places));
  return options;
}

Infos nameable(Infos inputs, const SourceOptions& options) {
  for (const auto& [name, value] : options.bound) inputs.push_back({name, value.type()});
  return inputs;
}

Result<GivenInputs> read_given(const Infos& inputs, const SourceOptions& options) {
  const Infos known = nameable(inputs, options);
  GivenInputs given;
  PENSTOCK_CHECK_OK(add_named_files(known, options, given));
  if (given.live && given.columns.contains(*given.live)) {
    return invalid_argument("--input: expected '", known[*given.live].name,
                            "' from standard input ('-') or from files, found both");
  }
  const auto& [hop, sample_rate] = options.sound;
  const auto is_sound = [&](const auto& text) { return sound_of(known, text).has_value(); };
  if ((hop > 0 || sample_rate > 0) && std::ranges::none_of(options.files, is_sound)) {
    return invalid_argument(hop > 0 ? "--hop" : "--sample-rate",
                            ": is for a sound: expected --input NAME=FILE.wav, found none");
  }
  note_rates(inputs, options);
  if (!options.all.empty()) {
    Columns more;
    if (ending_of(options.all) == ".npz") {
      PENSTOCK_CHECK_OK(add_archive(known, options.states, options.all, more));
    } else if (fs::is_directory(options.all)) {
      PENSTOCK_CHECK_OK(add_folder(known, options, more));
    } else {
      return not_found("--inputs: expected a folder or a .npz file, found '", options.all.string(),
                       "'");
    }
    if (given.live) more.erase(*given.live);
    given.columns.merge(more);  // What --input names wins.
  }
  PENSTOCK_CHECK_OK(take_bound(inputs.size(), known, options.bound, given));
  return given;
}

Names file_names_of(const Infos& tensors) {
  std::map<std::string, std::string> files;  // By the tensor's name.
  std::set<std::string> taken;
  for (const auto& tensor : tensors) {
    if (plain_name(tensor.name) == tensor.name && taken.insert(tensor.name).second) {
      files.emplace(tensor.name, tensor.name);
    }
  }
  Names all;
  for (const auto& tensor : tensors) {
    const auto [file, is_new] = files.try_emplace(tensor.name, plain_name(tensor.name));
    const auto plain = file->second;
    for (int i = 2; is_new && !taken.insert(file->second).second; ++i) {
      file->second = concat(plain, "-", i);
    }
    all.push_back(file->second);
  }
  return all;
}

}  // namespace penstock::frames
