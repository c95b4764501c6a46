// Arrays of .npz files as inputs, and frames of a folder that holds a .npz for each.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/given.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/npz.h"

namespace penstock::frames {

/// All arrays, in the inputs' types where they are named as these are. \error  as read_npz();
/// kInvalidArgument  there are none.
Result<NamedTensors> read_arrays(const std::vector<plan::TensorInfo>& inputs,
                                 const std::filesystem::path& file);

/// Of a value for a state. `what` it is: "file 'frames.npz': array".
Error state_refused(const std::string& what, const std::string& state);

/// The position of the input `name`, whose value an archive's `entry` is.
/// \error kNotFound  no such input, or one of `states`; as check_value(). All begin with `place`.
Result<std::size_t> input_of_array(const std::vector<plan::TensorInfo>& inputs,
                                   const std::vector<std::string>& states, const std::string& entry,
                                   const std::string& name, const Tensor& tensor,
                                   const std::string& place);

/// The archives among what lies in a folder, in its order.
std::vector<std::string> archives_among(const std::vector<std::filesystem::path>& entries);

/// A value of each archive for each input that the first one, which is read at once, has an array
/// of; the others are read when their turn comes, each once for all its inputs where these are read
/// one behind the other. A value's error names the archive: as read_npz() or check_value();
/// kNotFound  an array that is no input, or a state; kInvalidArgument  none of an input, or more
/// arrays than the first one has.
/// \error  that of the first one. \pre  `names` is not empty
Result<Columns> columns_of_archives(const std::vector<plan::TensorInfo>& inputs,
                                    const std::vector<std::string>& states,
                                    const std::filesystem::path& folder,
                                    std::vector<std::string> names);

}  // namespace penstock::frames
