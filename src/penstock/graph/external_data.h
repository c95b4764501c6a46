// Where the numbers of a TensorProto are: inside it, in the model's own bytes, or in another file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::graph {

/// A file mapped for reading; unmapped with the last owner.
class MappedFile {
 public:
  /// \error kNotFound  it cannot be opened, or is not a regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::string_view bytes() const { return {data_, size_}; }
  /// Reads a range without bringing it into this process's mapping. False on an I/O error.
  bool read(std::size_t offset, std::size_t size, void* to) const;

 private:
  MappedFile(int descriptor, char* data, std::size_t size)
      : descriptor_(descriptor), data_(data), size_(size) {}
  int descriptor_;
  char* data_;
  std::size_t size_;
};

/// Reads tensors of one model. Each external file is mapped once and never read.
class DataReader {
 public:
  /// `bytes`: the model itself, in `file` if that is not null. `folder`: of external data; empty
  /// where there is none.
  DataReader(std::string_view bytes, std::shared_ptr<const MappedFile> file,
             std::filesystem::path folder)
      : bytes_(bytes), file_(std::move(file)), folder_(std::move(folder)) {}

  /// \error kInvalidArgument  a location that leads outside the folder.
  /// \error kNotFound, kDataLoss  no such file; offset and length are not within it.
  Result<Tensor> read(const onnx::TensorProto& proto);

  /// Brings the numbers into the message itself.
  Status make_inline(onnx::TensorProto& proto);

 private:
  struct Place {
    std::string location;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> length;
  };
  static Result<Place> place_of(const onnx::TensorProto& proto);
  Result<Tensor> read_own(const onnx::TensorProto& proto, std::string_view place) const;
  Result<Tensor> read_external(const onnx::TensorProto& proto);
  Result<std::shared_ptr<const MappedFile>> open(const std::string& location);

  std::string_view bytes_;
  std::shared_ptr<const MappedFile> file_;
  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace penstock::graph
