// Bodies read and written without a server: JSON and binary tensors, wrong bodies, loads, metrics.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/http/unpack.h"
#include "penstock/rest/answers.h"
#include "penstock/rest/infer.h"
#include "penstock/rest/metrics.h"
#include "penstock/serve/reply_budget.h"

namespace penstock::rest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// As the server keeps it: in memory of its own, with room behind its end.
http::Body body_of(const std::string& text) {
  const auto kept = std::make_shared<std::string>(text + std::string(http::Body::kPadding, '\0'));
  return {.data = {kept, reinterpret_cast<std::byte*>(kept->data())}, .size = text.size()};
}

Result<InferBody> read(const std::string& json, const std::string& bytes = "") {
  return read_infer(body_of(json + bytes), json.size());
}

std::string input(const std::string& rest) {
  return R"({"inputs":[{"name":"x",)" + rest + "}]}";
}

template <typename T>
std::vector<T> values_of(const Tensor& tensor) {
  const auto span = tensor.as<T>();
  return {span.begin(), span.end()};
}

http::Response text_of(const serve::Reply& reply, bool listed, bool binary, std::string& json) {
  auto response = write_reply(reply, listed, binary);
  EXPECT_TRUE(response) << response.error().message();
  json = response->body.front().text;
  return *std::move(response);
}

TEST(ReadInfer, TakesNumbersFlatAndNested) {
  for (const char* data : {"[1,2,3,4]", "[[1,2],[3,4]]"}) {
    const auto read_one =
        read(input(R"("shape":[2,2],"datatype":"FP32","data":)" + std::string(data)));
    ASSERT_TRUE(read_one) << read_one.error().message();
    const auto& value = read_one->request.inputs.at(0).value;
    EXPECT_THAT(values_of<float>(value), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(value.dims(), ElementsAre(2, 2));
  }
}

TEST(ReadInfer, RefusesListsThatAreNotNestedAsTheShape) {
  const auto refused = [](const std::string& shape, const std::string& data) {
    const auto one = read(input(R"("datatype":"FP32","shape":)" + shape + R"(,"data":)" + data));
    return one ? std::string() : one.error().message();
  };
  const char* two_by_two = "expected a list of 2 elements, as its shape is [2,2], found ";
  EXPECT_THAT(refused("[2,2]", "[[1,2,3],[4]]"),
              HasSubstr(concat("[0] of its data: ", two_by_two, "more")));
  EXPECT_THAT(refused("[2,2]", "[[1,2],[3]]"),
              HasSubstr(concat("[1] of its data: ", two_by_two, "1")));
  EXPECT_THAT(refused("[2,2]", "[[1,2,3,4]]"), HasSubstr("[0] of its data: expected a list of 2"));
  EXPECT_THAT(refused("[3,2]", "[[1,2],[3,4]]"), HasSubstr("': its data: expected a list of 3"));
  EXPECT_THAT(refused("[2,2]", "[[1,2],3,4]"),
              HasSubstr("[1] of its data: expected a list, as its shape is [2,2], found "));
  EXPECT_THAT(refused("[2,2]", "[[[1],[2]],[3,[4]]]"), HasSubstr("element 0 of its data"));
  EXPECT_THAT(refused("[2,2]", "[1,2,[3,4]]"), HasSubstr("element 2 of its data"));
  EXPECT_THAT(refused("[2]", "[[1,2]]"), HasSubstr("element 0 of its data"));
  EXPECT_THAT(refused("[1,2,2]", "[[[1,2],[3,4,5]]]"), HasSubstr("[0][1] of its data"));
  EXPECT_EQ(refused("[2,0]", "[[],[]]"), "");
  EXPECT_EQ(refused("[0,2]", "[]"), "");
}

TEST(ReadInfer, TakesEachTypeThatJsonHolds) {
  const auto tensor = [](const std::string& type, const std::string& data) {
    const auto one =
        read(input(R"("data":)" + data + R"(,"datatype":")" + type + R"(","shape":[2])"));
    EXPECT_TRUE(one) << type << ": " << one.error().message();
    return one->request.inputs.at(0).value;
  };
  EXPECT_THAT(values_of<bool>(tensor("BOOL", "[true,false]")), ElementsAre(true, false));
  EXPECT_THAT(values_of<std::int8_t>(tensor("INT8", "[-128,127]")), ElementsAre(-128, 127));
  EXPECT_THAT(values_of<std::uint8_t>(tensor("UINT8", "[0,255]")), ElementsAre(0, 255));
  EXPECT_THAT(values_of<std::int16_t>(tensor("INT16", "[-32768,1]")), ElementsAre(-32768, 1));
  EXPECT_THAT(values_of<std::uint16_t>(tensor("UINT16", "[65535,1]")), ElementsAre(65535, 1));
  EXPECT_THAT(values_of<std::int32_t>(tensor("INT32", "[-5,5]")), ElementsAre(-5, 5));
  EXPECT_THAT(values_of<std::uint32_t>(tensor("UINT32", "[4294967295,5]")),
              ElementsAre(4294967295U, 5U));
  EXPECT_THAT(values_of<std::int64_t>(tensor("INT64", "[-9223372036854775808,5]")),
              ElementsAre(std::numeric_limits<std::int64_t>::min(), 5));
  EXPECT_THAT(values_of<std::uint64_t>(tensor("UINT64", "[18446744073709551615,5]")),
              ElementsAre(std::numeric_limits<std::uint64_t>::max(), 5U));
  EXPECT_THAT(values_of<double>(tensor("FP64", "[1e300,-2]")), ElementsAre(1e300, -2));
  EXPECT_THAT(tensor("BYTES", R"(["a\u00e9",""])").strings(), ElementsAre("a\u00e9", ""));
}

TEST(ReadInfer, TakesWholeNumbersInDigitsBeyond64Bits) {
  const auto read_one = read(
      R"({"id":"18446744073709551616\\\"99999999999999999999,","inputs":[{"name":"x","shape":[6],)"
      R"("datatype":"FP64","data":[18446744073709551616,-9223372036854775809,)"
      R"(18446744073709551615,-9223372036854775808,100000000000000000000e1,99999999999999999999]},)"
      R"({"name":"y","shape":[2],"datatype":"INT64","data":[-9223372036854775808,1]}]})");
  ASSERT_TRUE(read_one) << read_one.error().message();
  const auto& inputs = read_one->request.inputs;
  EXPECT_EQ(read_one->request.id, R"(18446744073709551616\"99999999999999999999,)");
  EXPECT_THAT(values_of<double>(inputs.at(0).value),
              ElementsAre(0x1p64, -0x1p63, 0x1p64, -0x1p63, 1e21, 1e20));
  EXPECT_THAT(values_of<std::int64_t>(inputs.at(1).value),
              ElementsAre(std::numeric_limits<std::int64_t>::min(), 1));
}

TEST(ReadInfer, TakesBytesBehindTheJsonInTheirOrder) {
  const std::string json =
      R"({"inputs":[{"name":"a","shape":[2],"datatype":"INT32","parameters":{"binary_data_size":8}},)"
      R"({"name":"b","shape":[1],"datatype":"UINT8","data":[7]},)"
      R"({"name":"c","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":11}}]})";
  const std::int32_t numbers[] = {5, -6};
  std::string bytes(reinterpret_cast<const char*>(numbers), sizeof numbers);
  bytes += std::string("\1\0\0\0x\2\0\0\0yz", 11);
  const auto read_one = read(json, bytes);
  ASSERT_TRUE(read_one) << read_one.error().message();
  const auto& inputs = read_one->request.inputs;
  EXPECT_THAT(values_of<std::int32_t>(inputs.at(0).value), ElementsAre(5, -6));
  EXPECT_THAT(values_of<std::uint8_t>(inputs.at(1).value), ElementsAre(7));
  EXPECT_THAT(inputs.at(2).value.strings(), ElementsAre("x", "yz"));
}

TEST(ReadInfer, LeavesWhatIsAlignedWhereItIs) {
  alignas(64) static std::byte memory[512];
  std::string json = R"({"inputs":[{"name":"x","shape":[4],"datatype":"FP32",)"
                     R"("parameters":{"binary_data_size":16}}]})";
  json.resize(128, ' ');
  for (const std::size_t offset : {0, 4}) {
    std::memcpy(memory + offset, json.data(), json.size());
    const http::Body body{.data = {std::shared_ptr<void>(), memory + offset}, .size = 144};
    const auto read_one = read_infer(body, json.size());
    ASSERT_TRUE(read_one) << read_one.error().message();
    const void* data = read_one->request.inputs.at(0).value.data();
    EXPECT_EQ(data == memory + 128, offset == 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
    EXPECT_EQ(read_one->request.copies, offset == 0 ? 0U : 1U);
  }
}

TEST(ReadInfer, TakesParameters) {
  const auto read_one = read(
      R"({"id":"me","parameters":{"sequence_id":7,"sequence_start":true,"sequence_end":false,)"
      R"("priority":1,"timeout":2000000,"binary_data_output":true,"own":1.5},"inputs":[],)"
      R"("outputs":[{"name":"y"},{"name":"z","parameters":{"binary_data":false,"classification":3}},)"
      R"({"name":"w","parameters":{"shared_memory_region":"r","shared_memory_byte_size":16}}]})");
  ASSERT_TRUE(read_one) << read_one.error().message();
  const auto& request = read_one->request;
  EXPECT_EQ(request.id, "me");
  ASSERT_TRUE(request.sequence);
  EXPECT_EQ(request.sequence->id, serve::SequenceId(std::uint64_t{7}));
  EXPECT_TRUE(request.sequence->start);
  EXPECT_EQ(request.priority, pipeline::Priority::kHigh);
  EXPECT_EQ(*request.deadline - request.received, std::chrono::seconds(2));
  EXPECT_EQ(request.parameters.at("own"), serve::Parameter(1.5));
  ASSERT_EQ(request.outputs.size(), 3U);
  EXPECT_TRUE(request.outputs[0].binary);
  EXPECT_FALSE(request.outputs[1].binary);
  EXPECT_EQ(request.outputs[1].classification, 3U);
  EXPECT_EQ(request.outputs[2].place->region, "r");
}

TEST(ReadInfer, TakesNoTimeoutOfNothingOrOfMoreThanAYear) {
  const auto deadline = [](const std::string& microseconds) {
    const auto read_one = read(R"({"parameters":{"timeout":)" + microseconds + R"(},"inputs":[]})");
    EXPECT_TRUE(read_one) << read_one.error().message();
    return read_one ? read_one->request.deadline : std::nullopt;
  };
  EXPECT_FALSE(deadline("0"));
  EXPECT_TRUE(deadline("1"));
  EXPECT_TRUE(deadline("31536000000000"));
  EXPECT_FALSE(deadline("31536000000001"));
  EXPECT_FALSE(deadline("18446744073709551615"));
}

struct WrongBody {
  std::string json, sentence, bytes;
};

TEST(ReadInfer, TakesNullForWhatIsLeftOut) {
  const auto read_one = read(
      R"({"id":null,"parameters":{"content_type":null,"sequence_id":null,"timeout":null,"own":2},)"
      R"("inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":null,"data":[3]}],)"
      R"("outputs":null})");
  ASSERT_TRUE(read_one) << read_one.error().message();
  const auto& request = read_one->request;
  EXPECT_EQ(request.id, "");
  EXPECT_FALSE(request.sequence);
  EXPECT_EQ(request.parameters.size(), 1U);
  EXPECT_TRUE(request.outputs.empty());
  EXPECT_FALSE(read(R"({"inputs":null})"));
}

TEST(ReadInfer, TellsOfTheHeaderWhereBytesAreNoJson) {
  const auto read_one = read("\xff\xfe\x01\x02");
  ASSERT_FALSE(read_one);
  EXPECT_THAT(read_one.error().message(),
              HasSubstr("'Inference-Header-Content-Length' says where the JSON ends"));
}

TEST(ReadInfer, SaysWhatIsWrong) {
  const auto with = [](const std::string& parameters) {
    return R"({"inputs":[],"parameters":{)" + parameters + "}}";
  };
  const std::string binary = R"("shape":[2],"datatype":"FP32","parameters":{"binary_data_size":)";
  const std::vector<WrongBody> cases = {
      {"", "found nothing"},
      {"[1]", "expected a JSON object, found an array"},
      {"{", "not JSON"},
      {"{}", "'inputs', found none"},
      {"{} {}", "not JSON"},
      {"{\"inputs\":[]}x", "not JSON"},
      {"{\"id\":\"\xff\"}", "not JSON"},
      {std::string(200, '['), "not JSON"},
      {std::string(200, '[') + std::string(200, ']'), "brackets open"},
      {R"({"inputs":)" + std::string(5000, '[') + std::string(5000, ']') + "}", "brackets open"},
      {R"({"inputs":{}})", "'inputs': expected an array, found an object"},
      {R"({"inputs":[1]})", "'inputs': expected objects, found an integer"},
      {R"({"id":5,"inputs":[]})", "'id': expected a string, found an integer"},
      {R"({"inputs":[{}]})", "expected a string 'name'"},
      {input(R"("shape":[1])"), "input 'x': expected a string 'datatype'"},
      {input(R"("datatype":"FP31","shape":[1],"data":[1])"), "input 'x': 'FP31' is no datatype"},
      {input(R"("datatype":"FP32","data":[1])"), "expected an array 'shape'"},
      {input(R"("datatype":"FP32","shape":["1"],"data":[1])"), "'shape': expected integers"},
      {input(R"("datatype":"FP32","shape":[-1],"data":[1])"), "expected sizes of 0 or more"},
      {input(R"("datatype":"FP32","shape":[9223372036854775808],"data":[1])"),
       "'shape': expected integers, found an integer over 9223372036854775807"},
      {input(R"("datatype":"FP32","shape":[18446744073709551616],"data":[1])"),
       "'shape': expected integers, found a number beyond 64 bits"},
      {input(R"("datatype":"FP32","shape":[-9223372036854775809],"data":[1])"),
       "'shape': expected integers, found a number beyond 64 bits"},
      {input(R"("datatype":"FP32","shape":[1.5],"data":[1])"),
       "'shape': expected integers, found a number with a fraction"},
      {with(R"("priority":18446744073709551616)"),
       "'priority': expected an integer of 0 or more, found a number beyond 64 bits"},
      {input(R"("datatype":"FP32","shape":[1],"data":[1],"data":[2])"),
       "input 'x': 'data': expected it once, found it twice"},
      {R"({"inputs":[],"inputs":[{}]})", "'inputs': expected it once, found it twice"},
      {with(R"("timeout":1,"timeout":2)"), "'timeout': expected it once, found it twice"},
      {input(R"("datatype":"FP32","shape":[1])"), "found none"},
      {input(R"("datatype":"FP32","shape":[1],"data":[1],"parameters":{"binary_data_size":4})"),
       "found several"},
      {input(R"("datatype":"FP32","shape":[2],"data":[1])"), "has 2 elements, its data 1"},
      {input(R"("datatype":"FP32","shape":[2],"data":[1,2,3])"), "has 2 elements, its data more"},
      {input(R"("datatype":"FP32","shape":[1000000000],"data":[1])"), "its data fewer"},
      {input(R"("datatype":"FP32","shape":[4294967296,4294967296],"data":[1])"), "any memory"},
      {input(R"("datatype":"FP32","shape":[1],"data":["1"])"), "expected a number, found a string"},
      {input(R"("datatype":"FP32","shape":[1],"data":[null])"), "expected a number, found null"},
      {input(R"("datatype":"FP32","shape":[1],"data":[1e39])"), "does not fit"},
      {input(R"("datatype":"INT32","shape":[1],"data":[1.5])"), "expected an integer"},
      {input(R"("datatype":"INT8","shape":[1],"data":[128])"),
       "element 0 of its data: 128 does not"},
      {input(R"("datatype":"UINT8","shape":[2],"data":[1,-1])"),
       "element 1 of its data: -1 does not"},
      {input(R"("datatype":"INT64","shape":[1],"data":[9223372036854775808])"), "does not fit"},
      {input(R"("datatype":"UINT64","shape":[1],"data":[18446744073709551616])"),
       "element 0 of its data: 1.8446744073709552e+19 does not fit"},
      {input(R"("datatype":"UINT64","shape":[1],"data":[1.5e19])"), "expected an integer"},
      {input(R"("datatype":"FP64","shape":[1],"data":[1e400])"), "not JSON"},
      {input(R"("datatype":"FP64","shape":[1],"data":[018446744073709551616])"), "not JSON"},
      {input(R"("datatype":"FP64","shape":[1],"data":[18446744073709551616x])"), "not JSON"},
      {input(R"("datatype":"BOOL","shape":[1],"data":[1])"),
       "expected true or false, found an int"},
      {input(R"("datatype":"BYTES","shape":[1],"data":[1])"),
       "expected a string, found an integer"},
      {input(R"("datatype":"FP16","shape":[1],"data":[1])"), "JSON cannot hold FP16"},
      {input(R"("datatype":"FP32","shape":[1],"data":{})"), "'data': expected an array"},
      {input(binary + "8}"), "but the body has 7 bytes left", "1234567"},
      {input(binary + "4}"), "expected 8 bytes for f32[2], found 4", "1234"},
      {input(binary + "8}"), "no input takes 1 byte of the body", "123456789"},
      {input(binary + "-8}"), "'binary_data_size': expected an integer of 0 or more"},
      {input(binary + "18446744073709551615}"), "the body has 8 bytes left", "12345678"},
      {input(R"("datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6})"),
       "its length is 9 bytes, but 2 are left", std::string("\x09\0\0\0ab", 6)},
      {input(R"("datatype":"BYTES","shape":[1000000000],"parameters":{"binary_data_size":4})"),
       "expected 1000000000 strings", std::string("\0\0\0\0", 4)},
      {input(R"("datatype":"FP32","shape":[1],"parameters":{"shared_memory_region":"r"})"),
       "must be given together"},
      {with(R"("triton_x":1)"), "reserved"},
      {with(R"("own":[1])"), "parameter 'own': expected a string, a number"},
      {with(R"("timeout":-1)"), "'timeout': expected an integer of 0 or more, found -1"},
      {with(R"("timeout":"1")"), "'timeout': expected an integer of 0 or more, found a string"},
      {with(R"("sequence_id":1.5)"), "'sequence_id'"},
      {with(R"("sequence_start":1)"), "'sequence_start': expected true or false"},
      {R"({"inputs":[],"outputs":[{}]})", "expected a string 'name'"},
      {R"({"inputs":[],"outputs":[{"name":"y","parameters":{"classification":-1}}]})",
       "output 'y': 'classification': expected an integer"},
  };
  for (const auto& wrong : cases) {
    const auto read_one = read(wrong.json, wrong.bytes);
    ASSERT_FALSE(read_one) << wrong.json.substr(0, 200);
    EXPECT_EQ(read_one.error().code, Code::kInvalidArgument);
    EXPECT_THAT(read_one.error().message(), HasSubstr(wrong.sentence)) << wrong.json.substr(0, 200);
  }
  EXPECT_THAT(read_infer(body_of("{}"), 3).error().message(),
              HasSubstr("but the body has 2 bytes"));
}

serve::ModelDescription model_of(DType dtype, std::vector<std::int64_t> dims) {
  return {.name = "m", .inputs = {{.name = "x", .dtype = dtype, .dims = std::move(dims)}}};
}

TEST(ReadRawInfer, FillsTheOnlyInput) {
  const auto open = read_raw_infer(body_of(std::string(24, '\0')), model_of(DType::kF32, {-1, 2}));
  ASSERT_TRUE(open) << open.error().message();
  EXPECT_THAT(open->request.inputs.at(0).dims, ElementsAre(3, 2));
  EXPECT_TRUE(open->all_binary);
  const auto text = read_raw_infer(body_of("hello"), model_of(DType::kString, {1}));
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_THAT(text->request.inputs.at(0).value.strings(), ElementsAre("hello"));
}

TEST(ReadRawInfer, SaysWhatDoesNotFit) {
  auto two = model_of(DType::kF32, {1});
  two.inputs.push_back(two.inputs.front());
  EXPECT_FALSE(read_raw_infer(body_of("1234"), two));
  EXPECT_FALSE(read_raw_infer(body_of("12345"), model_of(DType::kF32, {1})));
  EXPECT_FALSE(read_raw_infer(body_of("12345"), model_of(DType::kF32, {-1})));
  EXPECT_FALSE(read_raw_infer(body_of("1234"), model_of(DType::kF32, {-1, -1})));
  EXPECT_FALSE(read_raw_infer(body_of("hello"), model_of(DType::kString, {2})));
  EXPECT_FALSE(read_raw_infer(body_of(""), model_of(DType::kF32, {1})));
  const std::int64_t many = std::int64_t{1} << 32;
  const auto endless = read_raw_infer(body_of("1234"), model_of(DType::kF32, {-1, many, many}));
  ASSERT_FALSE(endless);
  EXPECT_THAT(endless.error().message(), HasSubstr("input 'x': shape [1,4294967296,4294967296]"));
}

serve::ReplyOutput output_of(const std::string& name, std::vector<float> values, bool binary) {
  Tensor tensor = Tensor::allocate(DType::kF32, {static_cast<std::int64_t>(values.size())});
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), values.size() * sizeof(float));
  return {.name = name, .value = tensor, .binary = binary};
}

TEST(WriteReply, PutsOutputsInTheJsonOrBehindIt) {
  serve::Reply reply{.model = "m", .version = "1", .id = "a\"b"};
  reply.outputs = {output_of("y", {1, 2.5, -0.0F}, false), output_of("z", {3}, true)};
  std::string json;
  const auto response = text_of(reply, true, false, json);
  EXPECT_EQ(json,
            R"({"id":"a\"b","model_name":"m","model_version":"1","outputs":[)"
            R"({"name":"y","datatype":"FP32","shape":[3],"data":[1,2.5,-0.0]},)"
            R"({"name":"z","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]})");
  ASSERT_EQ(response.body.size(), 2U);
  EXPECT_EQ(response.body[1].bytes.data(), reply.outputs[1].value.data()) << "was copied";
  EXPECT_EQ(*http::find_header(response.headers, "inference-header-content-length"),
            std::to_string(json.size()));
  EXPECT_EQ(*http::find_header(response.headers, "content-type"), "application/octet-stream");
}

TEST(WriteReply, TellsNoLengthWhereNoBytesFollow) {
  serve::Reply reply{.model = "m", .version = "1"};
  reply.outputs = {output_of("y", {}, true)};
  std::string json;
  const auto response = text_of(reply, false, true, json);
  EXPECT_THAT(json, HasSubstr(R"("binary_data_size":0)"));
  EXPECT_EQ(http::find_header(response.headers, "inference-header-content-length"), nullptr);
}

TEST(WriteReply, IsChargedForItsTextUntilItIsSent) {
  const auto budget = std::make_shared<serve::ReplyBudget>(1000);
  for (const char* encoding : {"", "gzip"}) {
    serve::Reply reply{.model = "m", .version = "1"};
    reply.outputs = {output_of("y", std::vector<float>(50, 0.25F), false)};
    reply.charge = std::make_shared<serve::ReplyCharge>(budget, "client");
    std::string json;
    auto response = text_of(reply, true, false, json);
    reply = {};
    http::pack(response, encoding);
    EXPECT_EQ(budget->used(), json.size());
    response = {};
    EXPECT_EQ(budget->used(), 0U);
  }
  serve::Reply large{.model = "m", .version = "1"};
  large.outputs = {output_of("y", std::vector<float>(500, 0.25F), false)};
  large.charge = std::make_shared<serve::ReplyCharge>(budget, "client");
  const auto written = write_reply(large, true, false);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kResourceExhausted);
}

TEST(WriteReply, RefusesWhatJsonCannotHold) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    serve::Reply reply;
    reply.outputs = {output_of("y", {1, bad}, false)};
    const auto written = write_reply(reply, true, false);
    ASSERT_FALSE(written);
    EXPECT_THAT(written.error().message(), HasSubstr("output 'y': holds"));
    EXPECT_TRUE(write_reply(reply, false, true));
  }
  serve::Reply text;
  text.outputs = {{.name = "y", .value = Tensor::strings({1}, {"\xff"}), .binary = false}};
  EXPECT_FALSE(write_reply(text, true, false));
}

TEST(Answers, MapCodesToStatuses) {
  EXPECT_EQ(response_of(make_error(Code::kResourceExhausted, "full")).status, 429);
  EXPECT_EQ(*http::find_header(response_of(make_error(Code::kResourceExhausted, "")).headers,
                               "Retry-After"),
            "1");
  EXPECT_NE(http::find_header(response_of(make_error(Code::kUnauthenticated, "")).headers,
                              "WWW-Authenticate"),
            nullptr);
  EXPECT_EQ(status_of(Code::kNotFound), 404);
  EXPECT_EQ(status_of(Code::kInvalidArgument), 400);
  EXPECT_EQ(status_of(Code::kUnavailable), 503);
  EXPECT_EQ(status_of(Code::kPermissionDenied), 403);
  EXPECT_EQ(status_of(Code::kDataLoss), 400);  // An upload that is corrupt.
}

TEST(ReadLoad, TakesFilesAsBase64) {
  const auto load = read_load(
      body_of(R"({"parameters":{"config":"{}","file:1/model.onnx":"AP8Q","file:2/a":"YQ=="}})"));
  ASSERT_TRUE(load) << load.error().message();
  EXPECT_EQ(load->config, "{}");
  EXPECT_EQ(load->files.at("1/model.onnx"), std::string("\0\xff\x10", 3));
  EXPECT_EQ(load->files.at("2/a"), "a");
  for (const char* bad :
       {R"({"parameters":{"file:a":"AP8"}})", R"({"parameters":{"file:a":"A_8Q"}})",
        R"({"parameters":{"file:a":"=A=="}})", R"({"parameters":{"file:a":5}})",
        R"({"parameters":{"other":"x"}})", R"({"parameters":[]})", "x"}) {
    EXPECT_FALSE(read_load(body_of(bad))) << bad;
  }
  EXPECT_TRUE(read_load(body_of("")));
}

TEST(ReadLoad, TakesConstantsAndStates) {
  const auto load = read_load(
      body_of(R"({"parameters":{"constant:sr":16000,"constant:fast":true,"constant:gain":[1, 2.5],)"
              R"("constant:mask":"mask.npy","state:h:1":"h:0"}})"));
  ASSERT_TRUE(load) << load.error().message();
  EXPECT_THAT(
      load->constants,
      ::testing::ElementsAre(::testing::Pair("fast", "true"), ::testing::Pair("gain", "[1,2.5]"),
                             ::testing::Pair("mask", "mask.npy"), ::testing::Pair("sr", "16000")));
  EXPECT_THAT(load->states, ::testing::ElementsAre(::testing::Pair("h:1", "h:0")));
  for (const char* bad : {R"({"parameters":{"constant:sr":{}}})", R"({"parameters":{"state:h":1}})",
                          R"({"parameters":{"constant:sr":null}})"}) {
    EXPECT_FALSE(read_load(body_of(bad))) << bad;
  }
}

TEST(Metrics, HaveTritonsNames) {
  serve::ModelStatistics model{.name = "m", .version = "2"};
  model.success = {.count = 3, .ns = 5000};
  model.failures[0] = 4;
  const auto text = metrics_text({model});
  EXPECT_THAT(text, HasSubstr("# TYPE nv_inference_request_success counter\n"));
  EXPECT_THAT(text, HasSubstr("nv_inference_request_success{model=\"m\",version=\"2\"} 3"));
  EXPECT_THAT(text, HasSubstr("nv_inference_request_duration_us{model=\"m\",version=\"2\"} 5"));
  EXPECT_THAT(
      text,
      HasSubstr("nv_inference_request_failure{model=\"m\",version=\"2\",reason=\"REJECTED\"} 4"));
}

TEST(Metrics, TellOfStagesAndEdges) {
  serve::ModelStatistics model{.name = "m", .version = "1"};
  pipeline::StageStats stage{.name = "head"};
  stage.frames = 7;
  stage.compute_infer.p90_ns = 2500;
  stage.lanes = 2;
  stage.calls = {5, 1};
  model.pipeline.stages = {stage};
  pipeline::EdgeStats edge{.name = "input -> head"};
  edge.capacity = 4;
  edge.depth = 3;
  edge.memory = "host";
  edge.bytes = 64;
  model.pipeline.edges = {edge};
  const auto text = metrics_text({model});
  const std::string labels = R"(model="m",version="1",)";
  for (const auto& line :
       {"penstock_stage_frames{" + labels + R"(stage="head"} 7)",
        "penstock_stage_duration_us{" + labels +
            R"(phase="compute_infer",quantile="0.9",stage="head"} 2.5)",
        "penstock_stage_lanes{" + labels + R"(stage="head"} 2)",
        "penstock_stage_calls{" + labels + R"(stage="head",frames="2"} 1)",
        "penstock_edge_depth{" + labels + R"(edge="input -> head"} 3)",
        "penstock_edge_bytes{" + labels + R"(edge="input -> head",memory="host"} 64)",
        "penstock_edge_capacity{" + labels + R"(edge="input -> head"} 4)"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, TellOfEachReplicaWhereItIsAndWhetherItComputes) {
  serve::ModelStatistics model{.name = "m", .version = "1"};
  pipeline::StageStats stage{.name = "head"};
  stage.instances = {{.device = "10.0.0.7:9000/cpu:0-1", .frames = 6, .able = false},
                     {.device = "cpu:0", .frames = 1}};
  model.pipeline.stages = {stage};
  const auto text = metrics_text({model});
  const std::string labels = R"({model="m",version="1",stage="head",instance=)";
  EXPECT_THAT(text, HasSubstr("penstock_instance_able" + labels +
                              R"("0",device="10.0.0.7:9000/cpu:0-1",peer="10.0.0.7:9000"} 0)"));
  EXPECT_THAT(text,
              HasSubstr("penstock_instance_frames" + labels + R"("1",device="cpu:0",peer=""} 1)"));
}

TEST(Metrics, TellOfTheProcessAndWhatItsOwnerAdds) {
  const auto text = metrics_text({}, [](metrics::Families& families) {
    families.add(metrics::Kind::kGauge, "of_the_owner", "Something", {}, 7);
  });
  EXPECT_THAT(text, HasSubstr("# TYPE process_resident_memory_bytes gauge\n"));
  EXPECT_THAT(text, HasSubstr("\nof_the_owner 7\n"));
}

}  // namespace
}  // namespace penstock::rest
