// The header of a .npy file: what the array is. Internal to tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"

namespace penstock {

/// "<f4" taken apart.
struct NpyDescription {
  char order = '|';        ///< '<', '>', '=' or '|'.
  char kind = 0;           ///< 'b', 'i', 'u', 'f', 'c', 'U', 'S', 'V', 'O', ...
  std::uint64_t size = 0;  ///< As written: bytes, or characters for 'U'.
};

struct NpyHeader {
  NpyDescription description;
  bool fortran_order = false;
  std::vector<std::int64_t> dims;
};

/// Parses the dictionary of the header, keys in any order.
/// \error kDataLoss  not such a dictionary. \error kInvalidArgument  a record type.
Result<NpyHeader> parse_npy_header(std::string_view text);

/// Magic, version, length and dictionary, padded to a multiple of 64 bytes.
std::string print_npy_header(std::string_view description, const std::vector<std::int64_t>& dims);

}  // namespace penstock
