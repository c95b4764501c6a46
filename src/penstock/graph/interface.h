// The inputs and outputs of an ONNX model as its file states them, its weights left unread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::graph {

struct Interface {
  struct Entry {
    std::string name;
    Type type;
  };
  std::vector<Entry> inputs;   ///< Without those that an initialiser gives a value.
  std::vector<Entry> outputs;  ///< In the file's order.
};

/// Maps the file. \error kNotFound, kDataLoss (not an ONNX model)
Result<Interface> read_interface(const std::filesystem::path& file);
/// Of a serialised onnx.ModelProto.
Result<Interface> read_interface_bytes(std::string_view model);

}  // namespace penstock::graph
