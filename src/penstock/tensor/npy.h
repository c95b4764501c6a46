// NumPy's .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// Reads one array: booleans, integers, floats, complex numbers, and texts (dtype kString).
///
/// Other byte orders and Fortran order are converted to ours. NumPy writes bf16 as void of two
/// bytes ("<V2"), read as bf16; and the 8-bit floats as void of one ("|V1"), which names none of
/// them: `expected` does.
/// \error kNotFound         no such file.
/// \error kDataLoss         not a .npy file, truncated, or longer than its header says.
/// \error kInvalidArgument  pickled objects, records or a type that has no counterpart.
Result<Tensor> read_npy(const std::filesystem::path& file,
                        std::optional<DType> expected = std::nullopt);

/// Whether write_npy() takes what it is: dense or texts, and of no packed 4- or 2-bit kind.
bool has_npy_form(const Tensor& tensor);

/// Writes a dense or string tensor; read_npy() gives the same back (8-bit floats when named there).
/// \error kInvalidArgument    a sequence, a packed 4- or 2-bit kind, or text that is not UTF-8.
/// \error kPermissionDenied, kResourceExhausted  the file cannot be written.
Status write_npy(const Tensor& tensor, const std::filesystem::path& file);

/// Fills the bytes given, in the order of the file. \error  whatever prevents it.
using ByteSource = std::function<Status(std::span<std::byte>)>;
/// Takes the next bytes of the file.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

/// Reads from any source of exactly `size_bytes`, such as an entry of a .npz.
Result<Tensor> read_npy(const ByteSource& source, std::uint64_t size_bytes,
                        std::optional<DType> expected = std::nullopt);
Status write_npy(const Tensor& tensor, const ByteSink& sink);

/// Whether these bytes are those that every .npy file begins with, or the first of them.
bool may_begin_npy(std::span<const std::byte> start);

/// The length of the .npy file that begins with `start`, for arrays one behind the other; where
/// `start` is too short to tell, how long it must be to tell more. \error as read_npy()
Result<std::uint64_t> npy_bytes(std::span<const std::byte> start,
                                std::optional<DType> expected = std::nullopt);

}  // namespace penstock
