// Frames of a folder that holds a .npz for each, with all inputs of that frame.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/given.h"
#include "penstock/plan/plan.h"

namespace penstock::frames {

/// The archives among what lies in a folder, in its order.
std::vector<std::string> archives_among(const std::vector<std::filesystem::path>& entries);

/// A value of each archive for each input that the first one, which is read at once, has an array
/// of; the others are read when their turn comes, each once for all its inputs where these are read
/// one behind the other. A value's error names the archive: as read_npz() or check_value();
/// kNotFound  an array that is no input; kInvalidArgument  none of an input.
/// \error  that of the first one. \pre  `names` is not empty
Result<Columns> columns_of_archives(const std::vector<plan::TensorInfo>& inputs,
                                    const std::filesystem::path& folder,
                                    std::vector<std::string> names);

}  // namespace penstock::frames
