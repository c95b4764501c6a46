// Errors, types and raw messages are read as they were written; malformed ones are refused.
#include "penstock/grpc/client/worker_messages.h"

#include <gtest/gtest.h>

#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/client/worker_protocol.h"

namespace penstock::grpc {
namespace {

Tensor counting(std::vector<std::int64_t> dims) {
  Tensor tensor = Tensor::allocate(DType::kF32, std::move(dims));
  float next = 0;
  for (float& value : tensor.as<float>()) value = next++;
  return tensor;
}

std::string bytes_of(const ::grpc::ByteBuffer& buffer) {
  std::vector<::grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string all;
  for (const auto& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

::grpc::ByteBuffer buffer_of(const std::string& bytes) {
  const ::grpc::Slice slice(bytes);
  return {&slice, 1};
}

TEST(WorkerMessages, AnErrorKeepsItsCodeReasonAndPlaces) {
  const Error error{Code::kNotFound,
                    "it is gone",
                    {{Where::kStage, "head"}, {Where::kFrame, 7}, {Where::kText, "in words"}}};
  worker::Error message;
  write(error, message);
  EXPECT_EQ(read(message), error);
}

TEST(WorkerMessages, AStatusCarriesTheErrorWhole) {
  const Error error{Code::kUnavailable, "away", {{Where::kPeer, "10.0.0.1:8001"}}};
  const auto status = to_worker_status(error);
  EXPECT_EQ(status.error_code(), ::grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(read_status(status), error);
}

TEST(WorkerMessages, AStatusOfAnotherServerGivesCodeAndMessage) {
  const auto error = read_status({::grpc::StatusCode::NOT_FOUND, "no such model"});
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_EQ(error.reason, "no such model");
}

TEST(WorkerMessages, PlacesOfANewerPenstockAreLeftOut) {
  worker::Error message;
  message.set_code(99);
  message.add_places()->set_kind("galaxy");
  EXPECT_EQ(read(message), Error(Code::kUnknown, "", {}));
}

TEST(WorkerMessages, ATypeKeepsOpenDimensionsWithNamesAndBounds) {
  const Type type = Type::tensor(DType::kI64, {{.size = 2}, {.symbol = "n", .bound = 512}, {}});
  worker::Type message;
  write(type, message);
  const auto same = read(message);
  ASSERT_TRUE(same);
  EXPECT_EQ(*same, type);
}

TEST(WorkerMessages, NoTypeIsRefused) {
  worker::Type message;
  EXPECT_EQ(read(message).error().code, Code::kInvalidArgument);
  message.set_dtype(1);
  message.add_dims()->set_size(-2);
  EXPECT_EQ(read(message).error().code, Code::kInvalidArgument);
}

TEST(WorkerMessages, ShapesLargerThanAnyMemoryAreRefused) {
  Dims dims;
  for (int i = 0; i < 3; ++i) dims.Add(std::int64_t{1} << 40);
  EXPECT_EQ(read_dims(dims).error().code, Code::kInvalidArgument);
}

TEST(RawMessage, IsReadAsItWasWritten) {
  worker::RunRequest request;
  request.mutable_call()->set_number(5);
  RawWriter writer(request.SerializeAsString(), kRawField);
  writer.add(counting({2, 3}));
  writer.add_nothing();
  writer.add(Tensor::strings({2}, {"a", "bc"}));
  const auto written = std::move(writer).finish();
  ASSERT_TRUE(written);
  const auto parts = RawMessage::read(*written, kRawField, "RunRequest");
  ASSERT_TRUE(parts) << parts.error().message();
  ASSERT_EQ(parts->count(), 3U);
  worker::RunRequest head;
  ASSERT_TRUE(head.ParseFromString(parts->head()));
  EXPECT_EQ(head.call().number(), 5U);
  EXPECT_EQ(head.raw_size(), 0);
  const auto first = read_raw(parts->tensor(0), DType::kF32, {2, 3});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->as<float>()[5], 5.0F);
  EXPECT_EQ(read_raw(parts->tensor(2), DType::kString, {2})->strings()[1], "bc");
  EXPECT_EQ(read_raw(parts->tensor(0), DType::kF32, {3, 3}).error().code, Code::kInvalidArgument);
}

TEST(RawMessage, IsWhatProtobufWrites) {
  worker::RunResponse response;
  response.mutable_answer()->set_number(3);
  const Tensor tensor = counting({4});
  RawWriter writer(response.SerializeAsString(), kRawField);
  writer.add(tensor);
  response.add_raw(static_cast<const char*>(tensor.data()), tensor.bytes());
  EXPECT_EQ(bytes_of(*std::move(writer).finish()), response.SerializeAsString());
}

TEST(RawMessage, KeepsNumbersBesideTheField) {
  worker::EchoRequest request;
  request.set_number(7);
  request.set_answer_bytes(1 << 20);
  request.set_payload("0123");
  const auto parts =
      RawMessage::read(buffer_of(request.SerializeAsString()), kRawField, "EchoRequest");
  ASSERT_TRUE(parts);
  worker::EchoRequest head;
  ASSERT_TRUE(head.ParseFromString(parts->head()));
  EXPECT_EQ(head.answer_bytes(), 1U << 20);
  EXPECT_TRUE(head.payload().empty());
  EXPECT_EQ(parts->bytes(0), 4U);
}

TEST(RawMessage, ThatEndsEarlyIsRefused) {
  worker::RunRequest request;
  request.add_raw("0123456789");
  const std::string whole = request.SerializeAsString();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_FALSE(RawMessage::read(buffer_of(whole.substr(0, size)), kRawField, "RunRequest"))
        << size;
  }
}

TEST(RawMessage, OfTooManyFieldsIsRefused) {
  worker::RunRequest request;
  for (int i = 0; i < 70'000; ++i) request.add_raw("");
  const auto parts =
      RawMessage::read(buffer_of(request.SerializeAsString()), kRawField, "RunRequest");
  EXPECT_EQ(parts.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace penstock::grpc
