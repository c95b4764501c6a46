// What a server of ours writes, as its clients read it.
#include "penstock/grpc/wire.h"

#include <gmock/gmock.h>
#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include "penstock/grpc/call_log.h"
#include "penstock/grpc/client/answer.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/serve/reply_budget.h"

namespace penstock::grpc {
namespace {

using ::testing::HasSubstr;

TEST(Wire, AnErrorInAStreamKeepsItsIdAndItsCode) {
  const Error full = make_error(Code::kResourceExhausted, "no room");
  const auto answer = parse_stream_answer(write_stream_error(full, "7"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->id, "7");
  ASSERT_FALSE(answer->outcome);
  EXPECT_EQ(answer->outcome.error().code, Code::kResourceExhausted);
  EXPECT_THAT(answer->outcome.error().message(), HasSubstr("no room"));
}

TEST(Wire, AReplyInAStreamIsReadWithoutItsWrapping) {
  serve::Reply reply{"twice", "1", "8", {}};
  Tensor value = Tensor::allocate(DType::kF32, {2});
  value.as<float>()[1] = 3;
  reply.outputs.push_back({"y", value, std::nullopt, true});
  auto written = write_stream_reply(std::move(reply));
  ASSERT_TRUE(written);
  const auto answer = parse_stream_answer(*written);
  ASSERT_TRUE(answer && answer->outcome);
  EXPECT_EQ(answer->id, "8");
  const std::vector<ModelPort> ports = {{"y", value.type()}};
  Tensor y;
  Tensor* const outputs[] = {&y};
  std::uint64_t allocations = 0;
  ASSERT_TRUE(read_answer(*answer->outcome, ports, outputs, allocations));
  EXPECT_EQ(y.as<float>()[1], 3);
}

TEST(Wire, ARequestsTraceparentMayBeAParameter) {
  const auto written =
      write_request({.model = "twice", .version = {}, .traceparent = "00-a-b-01"}, {}, {});
  ASSERT_TRUE(written);
  std::string id;
  const auto request = read_request(*written, id);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->traceparent, "00-a-b-01");
}

/// read_request() of a message.
Result<serve::Request> request_of(const inference::ModelInferRequest& message) {
  const std::string bytes = message.SerializeAsString();
  const ::grpc::Slice slice(bytes);
  std::string id;
  return read_request(::grpc::ByteBuffer(&slice, 1), id);
}

TEST(Wire, BytesThatBelongToNoInputAreRefused) {
  inference::ModelInferRequest message;
  auto& input = *message.add_inputs();
  input.set_name("x");
  input.set_datatype("INT8");
  input.add_shape(1);
  const auto read = [&] { return request_of(message); };
  message.add_raw_input_contents("a");
  EXPECT_TRUE(read());
  message.add_raw_input_contents("b");
  const auto refused = read();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr("expected 1 of 'raw_input_contents'"));
}

TEST(Wire, BytesOfARequestWithoutInputsAreCounted) {
  inference::ModelInferRequest message;
  message.add_raw_input_contents("a");
  const auto read = request_of(message);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->nameless, 1U);
}

TEST(Wire, ATensorThatComesInTwoWaysIsRefused) {
  inference::ModelInferRequest message;
  message.set_model_name("m");
  auto& input = *message.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(1);
  input.mutable_contents()->add_fp32_contents(1);
  EXPECT_TRUE(request_of(message));
  const auto refused = [&](const char* sentence) {
    const auto read = request_of(message);
    ASSERT_FALSE(read) << sentence;
    EXPECT_EQ(read.error().code, Code::kInvalidArgument);
    EXPECT_EQ(read.error().message(), concat("input 'x': ", sentence));
  };

  input.mutable_contents()->add_int_contents(1);
  refused(
      "expected the elements of FP32 in the field 'fp32_contents' of 'contents' alone, found 1 in "
      "'int_contents'");
  input.mutable_contents()->clear_int_contents();

  auto& parameters = *input.mutable_parameters();
  parameters["shared_memory_region"].set_string_param("r");
  parameters["shared_memory_byte_size"].set_int64_param(4);
  refused("unexpected 'contents' provided when using shared memory for input 'x' for model 'm'");
  parameters.clear();

  message.add_raw_input_contents("abcd");
  refused(
      "contents field must not be specified when using raw_input_contents for 'x' for model 'm'");
}

TEST(Wire, ContentsOfAnotherTypeAreNamed) {
  inference::ModelInferRequest message;
  auto& input = *message.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(1);
  input.mutable_contents()->add_fp64_contents(1);
  const auto wrong = request_of(message);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message(), HasSubstr("found 1 in 'fp64_contents'"));
  input.set_datatype("FP16");
  const auto raw_only = request_of(message);
  ASSERT_FALSE(raw_only);
  EXPECT_THAT(raw_only.error().message(), HasSubstr("FP16 has no field in 'contents'"));
}

TEST(CallLog, MakesNoTextWithoutALog) {
  const ::grpc::CallbackServerContext context;
  CallLog log(nullptr, context, "stream", "Run");
  int made = 0;
  log.note("stage", [&] { return std::to_string(++made); });
  log.end(::grpc::Status::OK);
  EXPECT_EQ(made, 0);
}

TEST(Wire, StringsKeepTheirChargeUntilTheyAreSent) {
  const auto budget = std::make_shared<serve::ReplyBudget>(1000);
  serve::Reply reply{"m", "1", "", {}};
  reply.charge = std::make_shared<serve::ReplyCharge>(budget, "client");
  ASSERT_TRUE(reply.charge->become(64));
  reply.outputs.push_back({"y", Tensor::strings({2}, {"one", ""}), std::nullopt, true});
  reply.outputs.push_back({"empty", Tensor::strings({0}, {}), std::nullopt, true});
  {
    const auto written = write_reply(std::move(reply));
    ASSERT_TRUE(written);
    reply = {};
    EXPECT_EQ(budget->used(), 64U);
    const auto parts = RawMessage::read(*written, 6, "ModelInferResponse");
    ASSERT_TRUE(parts) << parts.error().message();
    ASSERT_EQ(parts->count(), 2U);
    const auto strings = read_raw(parts->tensor(0), DType::kString, {2});
    ASSERT_TRUE(strings) << strings.error().message();
    EXPECT_THAT(strings->strings(), ::testing::ElementsAre("one", ""));
    EXPECT_EQ(parts->tensor(1).bytes(), 0U);
  }
  EXPECT_EQ(budget->used(), 0U);
}

}  // namespace
}  // namespace penstock::grpc
