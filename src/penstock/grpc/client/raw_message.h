// Messages with tensors' bytes in one field, for either end of a protocol.
// They are read and written without a copy but the one to where engines read them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/support/byte_buffer.h>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

/// A message taken apart; the field's entries stay where they are in it.
class RawMessage {
 public:
  /// `field`: repeated bytes, or bytes. `name`: of the message, for errors.
  /// \error kInvalidArgument  it is no such message, or has too many fields.
  static Result<RawMessage> read(const ::grpc::ByteBuffer& message, int field, const char* name);

  /// The message without the field: to be parsed as usual.
  [[nodiscard]] const std::string& head() const { return head_; }
  [[nodiscard]] std::size_t count() const { return entries_.size(); }  ///< Of the field's entries.
  [[nodiscard]] std::size_t bytes(std::size_t entry) const { return entries_[entry].length; }
  /// Copies an entry. \pre  there is room for bytes(entry)
  void copy(std::size_t entry, void* to) const;
  /// An entry as a message of its own, over the same memory.
  [[nodiscard]] ::grpc::ByteBuffer part(std::size_t entry) const;
  /// A copy of an entry as u8[bytes], aligned as engines want it.
  [[nodiscard]] Tensor tensor(std::size_t entry) const;

 private:
  struct Entry {
    std::size_t begin = 0, length = 0;  // In the message.
  };
  /// Calls take(slice, begin, end) with what of each slice the entry has, in order.
  template <typename Take>
  void each_piece(std::size_t entry, Take take) const;

  std::string head_;
  std::vector<Entry> entries_;
  std::vector<::grpc::Slice> slices_;  // The message.
};

/// An entry of the field as a tensor over the same memory; strings are decoded.
/// \error kInvalidArgument  it has not as many bytes as `dtype` and `dims` say.
Result<Tensor> read_raw(const Tensor& raw, DType dtype, const std::vector<std::int64_t>& dims);

/// A message put together of slices. A tensor's slice is its own memory, which lives as long.
class RawWriter {
 public:
  /// `head`: the message without the field.
  explicit RawWriter(std::string head, int field) : field_(field), before_(std::move(head)) {}

  /// One entry. Strings are encoded. \pre  it is dense or strings, in the host's memory
  void add(Tensor tensor);
  /// An entry without bytes.
  void add_nothing();

  /// \error kResourceExhausted  more bytes than gRPC takes.
  Result<::grpc::ByteBuffer> finish() &&;
  /// The message as field `outer` of another one that has nothing else.
  Result<::grpc::ByteBuffer> finish_within(int outer) &&;

 private:
  void add_slice(::grpc::Slice slice);

  const int field_;
  std::string before_;  // What comes next, in front of the next tensor's own memory.
  std::vector<::grpc::Slice> slices_;
  std::size_t bytes_ = 0;
};

}  // namespace penstock::grpc
