// Walks protobuf's wire format: one field's bytes stay in gRPC's slices, other fields are copied.
#include "penstock/grpc/client/raw_message.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "penstock/base/words.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

/// Bytes of a message besides raw tensors: its objects take many times as much.
constexpr std::size_t kMostHead = std::size_t{64} << 20;
/// Of the message itself, raw tensors counted one by one.
constexpr std::size_t kMostFields = 65536;

std::uint32_t length_tag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

void append_varint(std::string& to, std::uint32_t value) {
  std::array<std::uint8_t, 5> bytes{};
  const auto* end = CodedOutputStream::WriteVarint32ToArray(value, bytes.data());
  to.append(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::size_t>(end - bytes.data()));
}

/// A field with a length, to the end of `head`. False: it ends within.
bool read_field(CodedInputStream& input, std::uint32_t tag, std::uint32_t length,
                std::string& head) {
  append_varint(head, tag);
  append_varint(head, length);
  const std::size_t before = head.size();
  if (before + length > kMostHead) return false;
  head.resize(before + length);
  return input.ReadRaw(head.data() + before, static_cast<int>(length));
}

/// A field that is a number, as it is.
bool read_number(CodedInputStream& input, std::uint32_t tag, std::string& head) {
  google::protobuf::io::StringOutputStream to(&head);
  CodedOutputStream output(&to);
  return WireFormatLite::SkipField(&input, tag, &output);
}

::grpc::Slice slice_of(const std::string& text) {
  return {text.data(), text.size()};
}

/// The tensor's bytes where they are, which live as long as the slice.
::grpc::Slice slice_of(Tensor tensor) {
  auto* held = new Tensor(std::move(tensor));  // NOLINT(*-owning-memory): the slice owns it
  return {held->data(), held->bytes(), [](void* owned) { delete static_cast<Tensor*>(owned); },
          held};
}

}  // namespace

Result<RawMessage> RawMessage::read(const ::grpc::ByteBuffer& message, int field,
                                    const char* name) {
  const auto no_message = [&] { return invalid_argument("the bytes are no ", name); };
  const std::size_t most = message.Length();
  ::grpc::ByteBuffer bytes = message;  // Of the same slices.
  ::grpc::ProtoBufferReader reader(&bytes);
  if (!reader.status().ok()) return no_message();
  RawMessage made;
  if (!message.Dump(&made.slices_).ok()) return no_message();
  CodedInputStream input(&reader);
  std::size_t fields = 0;
  while (const std::uint32_t tag = input.ReadTag()) {
    if (++fields > kMostFields) {
      return invalid_argument("the ", name, " has more than ", kMostFields, " fields");
    }
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!read_number(input, tag, made.head_)) return no_message();
      continue;
    }
    std::uint32_t length = 0;
    if (!input.ReadVarint32(&length)) return no_message();
    const auto at = static_cast<std::size_t>(input.CurrentPosition());
    if (length > most - std::min(most, at)) return no_message();
    const bool raw = tag == length_tag(field);
    if (raw) made.entries_.push_back({at, length});
    const bool read =
        raw ? input.Skip(static_cast<int>(length)) : read_field(input, tag, length, made.head_);
    if (!read) return no_message();
  }
  if (!input.ConsumedEntireMessage()) return no_message();
  return made;
}

template <typename Take>
void RawMessage::each_piece(std::size_t entry, Take take) const {
  auto [begin, left] = entries_[entry];
  for (const auto& slice : slices_) {
    if (left == 0) break;
    if (begin >= slice.size()) {
      begin -= slice.size();
      continue;
    }
    const std::size_t here = std::min(left, slice.size() - begin);
    take(slice, begin, begin + here);
    left -= here;
    begin = 0;
  }
}

void RawMessage::copy(std::size_t entry, void* to) const {
  auto* at = static_cast<std::byte*>(to);
  each_piece(entry, [&](const auto& slice, std::size_t begin, std::size_t end) {
    std::memcpy(at, slice.begin() + begin, end - begin);
    at += end - begin;
  });
}

::grpc::ByteBuffer RawMessage::part(std::size_t entry) const {
  std::vector<::grpc::Slice> pieces;
  each_piece(entry, [&](const auto& slice, std::size_t begin, std::size_t end) {
    pieces.push_back(slice.sub(begin, end));
  });
  return {pieces.data(), pieces.size()};
}

Tensor RawMessage::tensor(std::size_t entry) const {
  const auto length = static_cast<std::int64_t>(bytes(entry));
  Tensor copied = Tensor::reserve(DType::kU8, bytes(entry));
  static_cast<void>(copied.set_dims({&length, 1}));  // It has room.
  copy(entry, copied.data());
  return copied;
}

Result<Tensor> read_raw(const Tensor& raw, DType dtype, const std::vector<std::int64_t>& dims) {
  if (dtype == DType::kString) return decode_strings(std::as_bytes(raw.as<char>()), dims);
  PENSTOCK_TRY(const std::size_t expected, count_bytes(dtype, dims));
  if (raw.bytes() != expected) {
    return invalid_argument("expected ", counted(expected, "byte"), " for ",
                            to_string(Type::tensor(dtype, std::span(dims))), ", found ",
                            raw.bytes());
  }
  return Tensor::view(dtype, dims, const_cast<void*>(raw.data()), raw.owner());
}

void RawWriter::add_slice(::grpc::Slice slice) {
  bytes_ += slice.size();
  slices_.push_back(std::move(slice));
}

void RawWriter::add(Tensor tensor) {
  const bool strings = tensor.kind() == Tensor::Kind::kStrings;
  const std::string encoded = strings ? encode_strings(tensor) : std::string();
  append_varint(before_, length_tag(field_));
  append_varint(before_, static_cast<std::uint32_t>(strings ? encoded.size() : tensor.bytes()));
  before_ += encoded;
  if (strings || tensor.bytes() == 0) return;
  add_slice(slice_of(before_));
  before_.clear();
  add_slice(slice_of(std::move(tensor)));
}

void RawWriter::add_nothing() {
  append_varint(before_, length_tag(field_));
  append_varint(before_, 0);
}

Result<::grpc::ByteBuffer> RawWriter::finish() && {
  add_slice(slice_of(before_));
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  if (bytes_ <= kMost) return ::grpc::ByteBuffer(slices_.data(), slices_.size());
  return make_error(Code::kResourceExhausted, "the message has ", bytes_, " bytes, more than the ",
                    kMost, " that gRPC takes");
}

Result<::grpc::ByteBuffer> RawWriter::finish_within(int outer) && {
  add_slice(slice_of(std::exchange(before_, {})));
  append_varint(before_, length_tag(outer));
  append_varint(before_, static_cast<std::uint32_t>(bytes_));
  slices_.insert(slices_.begin(), slice_of(std::exchange(before_, {})));
  bytes_ += slices_.front().size();
  return std::move(*this).finish();
}

}  // namespace penstock::grpc
