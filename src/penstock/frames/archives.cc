// Reads one .npz for each frame, keeps the last one for its other inputs, and checks its arrays.
#include "penstock/frames/archives.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "penstock/base/ending.h"
#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/tensor/npz.h"

namespace penstock::frames {
namespace {

namespace fs = std::filesystem;
using Infos = std::vector<plan::TensorInfo>;
using Names = std::vector<std::string>;
using Row = std::map<std::size_t, Tensor>;

/// The arrays of one frame, by their inputs' positions.
Result<Row> read_archive(const Infos& inputs, const Names& states, const fs::path& file) {
  PENSTOCK_TRY(auto tensors, read_arrays(inputs, file));
  const std::string place = concat("file '", file.string(), "'");
  Row row;
  for (auto& [name, tensor] : tensors) {
    PENSTOCK_TRY(const auto input, input_of_array(inputs, states, name, name, tensor, place));
    row.emplace(input, std::move(tensor));
  }
  return row;
}

/// The archives of all inputs. The last one that was read is kept, as the next input's value is
/// most likely asked of it.
class Archives {
 public:
  Archives(Infos inputs, Names states, fs::path folder, Names names)
      : inputs_(std::move(inputs)),
        states_(std::move(states)),
        folder_(std::move(folder)),
        names_(std::move(names)) {}

  [[nodiscard]] std::size_t count() const { return names_.size(); }
  [[nodiscard]] const std::string& name(std::size_t number) const { return names_[number]; }

  /// The other archives have to have as many. \pre  nobody asks for values yet
  Result<Row> first() {
    PENSTOCK_TRY(auto values, row(0));
    arrays_ = values.size();
    return values;
  }

  Result<Tensor> value(std::size_t number, std::size_t input) {
    PENSTOCK_TRY(auto values, row(number));
    const auto found = values.find(input);
    const auto place = [&] { return (folder_ / names_[number]).string(); };
    if (found == values.end()) {
      return invalid_argument("expected an array '", inputs_[input].name,
                              "', as the first archive of the folder has one, found none")
          .within({Where::kFile, place()});
    }
    if (values.size() > arrays_) {
      return invalid_argument("expected ", counted(arrays_, "array"),
                              ", as many as the folder's first archive "
                              "has, found ",
                              values.size())
          .within({Where::kFile, place()});
    }
    return std::move(found->second);
  }

 private:
  Result<Row> row(std::size_t number) {
    const std::scoped_lock lock(mutex_);
    if (last_ != number) {
      PENSTOCK_TRY(row_, read_archive(inputs_, states_, folder_ / names_[number]));
      last_ = number;
    }
    return row_;
  }

  const Infos inputs_;
  const Names states_;
  const fs::path folder_;
  const Names names_;
  std::size_t arrays_ = 0;  // Of the first archive.
  std::mutex mutex_;        // Guards what follows.
  std::optional<std::size_t> last_;
  Row row_;
};

struct Column final : Origin {
  Column(std::shared_ptr<Archives> of, std::size_t position)
      : archives(std::move(of)), input(position) {}
  [[nodiscard]] Result<Tensor> read(std::size_t number) const override {
    return archives->value(number, input);
  }
  [[nodiscard]] std::string file(std::size_t number) const override {
    return archives->name(number);
  }

  std::shared_ptr<Archives> archives;
  std::size_t input;
};

}  // namespace

Result<NamedTensors> read_arrays(const Infos& inputs, const fs::path& file) {
  std::map<std::string, DType> expected;
  for (const auto& info : inputs) expected[info.name] = info.type.dtype;
  PENSTOCK_TRY(auto tensors, read_npz(file, expected));
  if (tensors.empty()) return invalid_argument("file '", file.string(), "': holds no arrays");
  return tensors;
}

Error state_refused(const std::string& what, const std::string& state) {
  return not_found(what, " '", state,
                   "' is a state, which each frame reads of the one before: leave it out; a first "
                   "value belongs in the package (",
                   OptionName::kStates, ")");
}

Result<std::size_t> input_of_array(const Infos& inputs, const Names& states,
                                   const std::string& entry, const std::string& name,
                                   const Tensor& tensor, const std::string& place) {
  const auto found = std::ranges::find(inputs, name, &plan::TensorInfo::name);
  if (found == inputs.end()) {
    if (std::ranges::find(states, name) != states.end()) {
      return state_refused(place + ": array", name);
    }
    if (inputs.empty()) return not_found(place, ": array '", entry, "': the network has no inputs");
    return not_found(place, ": array '", entry, "' is no input; the inputs are ",
                     quoted_names(inputs), ": name the arrays so");
  }
  PENSTOCK_CHECK_OK(check_value(tensor, *found, place, CameFrom::kArray));
  return static_cast<std::size_t>(found - inputs.begin());
}

std::vector<std::string> archives_among(const std::vector<fs::path>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) {
    std::error_code unknown;
    if (ending_of(entry) != ".npz" || fs::is_directory(entry, unknown)) continue;
    names.push_back(entry.filename().string());
  }
  return names;
}

Result<Columns> columns_of_archives(const Infos& inputs, const Names& states,
                                    const fs::path& folder, Names names) {
  const auto archives = std::make_shared<Archives>(inputs, states, folder, std::move(names));
  PENSTOCK_TRY(const auto first, archives->first());
  Columns columns;
  for (const auto& [input, value] : first) {
    const auto origin = std::make_shared<Column>(archives, input);
    auto& values = columns[input];
    values.reserve(archives->count());
    for (std::size_t number = 0; number < archives->count(); ++number) {
      values.emplace_back(origin, number);
    }
  }
  return columns;
}

}  // namespace penstock::frames
