// Given frames that do not fit are refused, archives and folders pair values by their frame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/frames/source.h"
#include "penstock/frames/values.h"
#include "penstock/tensor/npy.h"
#include "penstock/tensor/npz.h"
#include "tests/support/temporary_folder.h"

namespace penstock::frames {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Sizes = std::vector<std::int64_t>;

Type scalar(DType dtype) {
  return Type::tensor(dtype, std::vector<std::int64_t>{1});
}

const std::vector<plan::TensorInfo> kInputs{{"x", scalar(DType::kF32)}, {"y", scalar(DType::kF32)}};

Tensor number(float value) {
  auto tensor = Tensor::allocate(DType::kF32, {1});
  tensor.as<float>()[0] = value;
  return tensor;
}

TEST(CheckFrames, NamesTheFrameAndTheInput) {
  EXPECT_TRUE(check_frames(kInputs, {{number(1), number(2)}}));
  const auto refusal = [](const std::vector<Frame>& frames) {
    const auto status = check_frames(kInputs, frames);
    return status ? "accepted" : status.error().message();
  };
  EXPECT_EQ(refusal({{number(1), number(2)}, {number(1)}}),
            "frame 1: expected 2 values ('x', 'y'), found 1");
  EXPECT_THAT(refusal({{number(1), Tensor::allocate(DType::kI64, {1})}}),
              HasSubstr("input 'y': frame 0: expected f32[1], found i64[1]"));
}

TEST(CheckValue, SaysWhatToDoWhereTheValueCameFrom) {
  const plan::TensorInfo picture{"x", Type::tensor(DType::kF32, Sizes{3, 4, 5})};
  const auto advice = [&](DType dtype, Sizes dims, CameFrom from) {
    const auto status = check_value(Tensor::allocate(dtype, std::move(dims)), picture, "w", from);
    const auto message = status ? "accepted" : status.error().message();
    return message.substr(message.find("; ") + 2);
  };
  constexpr const char* kGive = "give values of that type and shape, for one frame";
  EXPECT_EQ(advice(DType::kF64, {3, 4, 5}, CameFrom::kArray),
            "convert it with .astype('float32') and save it again");
  EXPECT_EQ(advice(DType::kF32, {12, 5}, CameFrom::kArray),
            ".reshape(3, 4, 5) gives it that shape; save it so");
  for (const auto from : {CameFrom::kFile, CameFrom::kStream, CameFrom::kCaller}) {
    EXPECT_EQ(advice(DType::kF64, {3, 4, 5}, from), kGive);
    EXPECT_EQ(advice(DType::kF32, {12, 5}, from), kGive);
  }
  EXPECT_THAT(advice(DType::kU8, {20, 30, 3}, CameFrom::kArray),
              HasSubstr("or save what penstock.io.prepare() makes of it"));
  EXPECT_EQ(advice(DType::kU8, {20, 30, 4}, CameFrom::kArray),
            "convert it with .astype('float32') and save it again");
  const Sizes several{2, 3, 4, 5};
  EXPECT_THAT(advice(DType::kF32, several, CameFrom::kArray), HasSubstr("give a folder of files"));
  EXPECT_THAT(advice(DType::kF32, several, CameFrom::kFile), HasSubstr("give a folder of files"));
  EXPECT_THAT(advice(DType::kF32, several, CameFrom::kStream), HasSubstr("one behind the other"));
  EXPECT_THAT(advice(DType::kF32, several, CameFrom::kCaller), HasSubstr("a frame of its own"));
}

TEST(RandomFrames, RefuseIntegersUnderZero) {
  const auto refused = random_frame({{"i", scalar(DType::kI64)}}, {.integer_limit = 0}, 0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("integer_limit: expected 1 or more"));
}

Type open(DType dtype, const char* first, const char* second) {
  return Type::tensor(dtype, std::vector<Dim>{{.symbol = first}, {.symbol = second}});
}

/// The sizes of all values of the only frame where `files` are given.
std::string sizes_of_frame(const std::vector<plan::TensorInfo>& inputs,
                           const std::vector<std::string>& files) {
  const auto frames = read_frames(inputs, {.files = files});
  if (!frames) return frames.error().message();
  return join(frames->front(), " ", [](const Tensor& value) {
    return join(value.dims(), "x", [](std::int64_t size) { return std::to_string(size); });
  });
}

TEST(RandomFrames, AreAsLargeAsWhatIsGivenOfTheSameSymbol) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "m.npy").string();
  ASSERT_TRUE(write_npy(Tensor::allocate(DType::kI64, {2, 3}), file));
  const std::vector<plan::TensorInfo> inputs{{"ids", open(DType::kI64, "batch", "sequence")},
                                             {"mask", open(DType::kI64, "batch", "sequence")},
                                             {"past", open(DType::kF32, "past", "batch")},
                                             {"free", open(DType::kF32, "", "")}};
  EXPECT_EQ(sizes_of_frame(inputs, {"mask=" + file}), "2x3 2x3 1x2 1x1");
}

TEST(RandomFrames, KeepWhatTheyAreWhereNoSymbolIsGiven) {
  const TemporaryFolder folder;
  const auto file = (folder.path() / "m.npy").string();
  ASSERT_TRUE(write_npy(Tensor::allocate(DType::kI64, {2, 3}), file));
  const plan::TensorInfo random{"x", scalar(DType::kF32)};
  const auto alone = random_frame({random}, {}, 0);
  const auto beside =
      read_frames({{"mask", open(DType::kI64, "b", "s")}, random}, {.files = {"mask=" + file}});
  ASSERT_TRUE(alone && beside);
  EXPECT_EQ(beside->front()[1].as<float>()[0], alone->front().as<float>()[0]);
}

class GivenTest : public ::testing::Test {
 protected:
  /// The values of x and y by frame, or what is wrong.
  std::string read(const std::filesystem::path& all) {
    const auto frames = read_frames(kInputs, {.all = all});
    if (!frames) return frames.error().message();
    return join(*frames, "; ", [](const Frame& frame) {
      return concat(frame[0].as<float>()[0], ",", frame[1].as<float>()[0]);
    });
  }
  std::string read_archive(const std::vector<std::pair<std::string, float>>& entries) {
    NamedTensors tensors;
    for (const auto& [name, value] : entries) tensors.emplace_back(name, number(value));
    EXPECT_TRUE(write_npz(tensors, folder_.path() / "f.npz"));
    return read(folder_.path() / "f.npz");
  }
  void write(const std::string& file, float value) {
    const auto path = folder_.path() / "f" / file;
    std::filesystem::create_directories(path.parent_path());
    EXPECT_TRUE(write_npy(number(value), path));
  }

  TemporaryFolder folder_;
};

TEST_F(GivenTest, AnArchivesValuesArePairedByFrame) {
  EXPECT_EQ(
      read_archive({{"2/x", 2}, {"0/y", 10}, {"10/y", 30}, {"0/x", 1}, {"2/y", 20}, {"10/x", 3}}),
      "1,10; 2,20; 3,30");
  EXPECT_EQ(read_archive({{"0/x", 1}, {"01/x", 2}, {"y", 5}}), "1,5; 2,5");
}

TEST_F(GivenTest, AnArchiveWithAGapIsRefused) {
  EXPECT_THAT(read_archive({{"0/x", 1}, {"2/x", 2}, {"0/y", 1}, {"1/y", 2}}),
              HasSubstr("expected an array '1/x', as other frames have that input, found none"));
  EXPECT_THAT(read_archive({{"1/x", 1}, {"01/x", 2}}),
              HasSubstr("array '01/x': that frame has the input already"));
  EXPECT_THAT(read_archive({{"0/x", 1}, {"1/x", 2}, {"x", 9}, {"y", 5}}),
              HasSubstr("array 'x': frames have that input already, as '<frame>/x'"));
}

TEST_F(GivenTest, EachFoldersFrameHasTheSameInputs) {
  write("0/x.npy", 1);
  write("0/y.npy", 10);
  write("1/x.npy", 2);
  EXPECT_THAT(read(folder_.path() / "f"), HasSubstr("found 1 of input 'y' in the first 2"));
  write("1/y.npy", 20);
  EXPECT_EQ(read(folder_.path() / "f"), "1,10; 2,20");
}

TEST(FileNames, AreAnotherForEachTensor) {
  const auto names = [](const std::vector<std::string>& tensors) {
    std::vector<plan::TensorInfo> infos;
    for (const auto& name : tensors) infos.push_back({name, scalar(DType::kF32)});
    return file_names_of(infos);
  };
  EXPECT_THAT(names({"a/b", "c", "a:b", ".", "_."}),
              ElementsAre("a_b", "c", "a_b-2", "_.-2", "_."));
  EXPECT_THAT(names({"a/b", "a_b", "a:b", "a_b-2"}), ElementsAre("a_b-3", "a_b", "a_b-4", "a_b-2"));
  EXPECT_THAT(names({"a/b", "a/b", "", "y", "y"}), ElementsAre("a_b", "a_b", "_", "y", "y"));
}

TEST_F(GivenTest, InputsWhoseNamesAreAlikeHaveFilesOfTheirOwn) {
  write("a_b.npy", 1);
  write("a_b-2.npy", 2);
  const std::vector<plan::TensorInfo> inputs{{"a/b", scalar(DType::kF32)},
                                             {"a_b", scalar(DType::kF32)}};
  const auto frames = read_frames(inputs, {.all = folder_.path() / "f"});
  ASSERT_TRUE(frames);
  EXPECT_EQ(frames->front()[0].as<float>()[0], 2);
  EXPECT_EQ(frames->front()[1].as<float>()[0], 1);
}

TEST_F(GivenTest, OfMoreThanMemoryShouldHoldTheFirstAreTaken) {
  constexpr std::size_t kGiven = kUsualFrames + 2;
  for (std::size_t i = 0; i < kGiven; ++i) write(concat(kGiven + i, ".npy"), static_cast<float>(i));
  std::string told;
  SourceOptions options{.files = {"x=" + (folder_.path() / "f").string()}};
  options.warn = [&](const std::string& text) { told = text; };
  const auto count = [&] { return read_frames(kInputs, options)->size(); };
  EXPECT_EQ(count(), kUsualFrames);
  EXPECT_THAT(told, HasSubstr("of 258 frames the first 256 are used"));
  told.clear();
  options.wanted = 10;
  EXPECT_EQ(count(), 10U);
  options.wanted = UINT64_MAX;
  EXPECT_EQ(count(), kGiven);
  EXPECT_EQ(told, "");
  options.most_bytes = 4 * 2 * sizeof(float);
  EXPECT_EQ(count(), 4U);
  EXPECT_THAT(told, HasSubstr("of 258 frames the first 4 are used"));
}

}  // namespace
}  // namespace penstock::frames
