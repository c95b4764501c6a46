// The values of one input: from a file, from the files of a folder, from a sound.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/frame.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::frames {

/// Where values of frames come from, by their number there. Any thread, several at a time.
class Origin {
 public:
  virtual ~Origin() = default;
  [[nodiscard]] virtual Result<Tensor> read(std::size_t number) const = 0;
  /// The file that value `number` is read from, as its folder names it; empty: none.
  [[nodiscard]] virtual std::string file(std::size_t number) const = 0;
};

/// The value of one frame: one in memory, or one that is read when its turn comes. Small, as there
/// may be millions.
class Value {
 public:
  Value(std::shared_ptr<const Origin> origin, std::size_t number)
      : origin_(std::move(origin)), number_(number) {}
  Result<Tensor> operator()() const { return origin_->read(number_); }
  [[nodiscard]] std::string file() const { return origin_->file(number_); }

 private:
  std::shared_ptr<const Origin> origin_;
  std::size_t number_;
};
using Values = std::vector<Value>;

Value constant(Tensor value, std::string file = "");

/// The value in a .npy, .pb or picture file, or the bytes of another one. \error names the input
/// and the file, expected, found.
Result<Tensor> load_value(const std::filesystem::path& file, const plan::TensorInfo& info);

/// Where a value comes from, which decides what to do about one that does not fit.
enum class CameFrom {
  kArray,   ///< A file of numpy's, .npy or .npz.
  kFile,    ///< Another one.
  kStream,  ///< Standard input.
  kCaller,  ///< Memory.
};

/// \error kInvalidArgument  "input 'x': <where>: expected f32[1,3], found u8[3]", and what to do
Status check_value(const Tensor& value, const plan::TensorInfo& info, const std::string& where,
                   CameFrom from);

/// Whether each frame has a value for each input that fits it, before they are read by position.
/// \error kInvalidArgument  "frame 3: expected 2 values, of inputs 'x', 'y', found 1"; as
///                          check_value()
Status check_frames(const std::vector<plan::TensorInfo>& inputs, const std::vector<Frame>& frames);

/// How a sound becomes frames (see sound.h).
struct SoundOptions {
  std::uint64_t hop = 0;          ///< Samples from start to start; 0: a block's length.
  std::uint64_t sample_rate = 0;  ///< That the file must have; 0: any.
};

/// Whether the input takes a file's own bytes, whatever it is: u8 of one dimension, which is open.
bool takes_bytes(const Type& type);

/// Hears a sentence.
using Warn = std::function<void(const std::string&)>;

/// What `--input NAME=PATH` stands for: one value of a file, which is read at once; one for each
/// .npy, .pb and picture of a folder, by name, or for each file of one for an input that
/// takes_bytes(), hidden ones left out; one for each block of a .wav. `warn` hears of a folder's
/// other files.
/// \error as load_value() and sound_values(); kNotFound  the folder has no such file.
Result<Values> values_of(const std::filesystem::path& path, const plan::TensorInfo& info,
                         const SoundOptions& sound, const Warn& warn);

/// What lies in a folder but for hidden files, by name. \error kNotFound
Result<std::vector<std::filesystem::path>> list_folder(const std::filesystem::path& folder);

}  // namespace penstock::frames
