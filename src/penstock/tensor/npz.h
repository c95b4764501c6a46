// NumPy's .npz files: several named arrays in one zip.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Every array, by its name without ".npy", in the file's order. Stored or deflated.
/// `expected` names the 8-bit floats among them (see read_npy()).
/// \error as read_npy(), with the array named; kDataLoss  not a zip, a name twice, a false size.
Result<NamedTensors> read_npz(const std::filesystem::path& file,
                              const std::map<std::string, DType>& expected = {});

/// Uncompressed, as numpy.savez does; the same tensors give the same bytes.
/// \error as write_npy(), with the array named.
Status write_npz(const NamedTensors& tensors, const std::filesystem::path& file);

}  // namespace penstock
