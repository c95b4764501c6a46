// Pictures of a few pixels read for inputs of several layouts, sizes and types, and bad files.
#include "penstock/tensor/image.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

#include "penstock/tensor/exif.h"
#include "tests/support/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class ImageTest : public testing::Test {
 protected:
  fs::path at(const std::string& name) { return folder_ / name; }
  fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(at(name), std::ios::binary) << bytes;
    return at(name);
  }
  /// Two pixels, red and white.
  fs::path ppm() {
    return write("x.ppm",
                 std::string("P6 2 1 255\n") + "\xFF" + std::string(2, '\0') + "\xFF\xFF\xFF");
  }

 private:
  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

Type type(DType dtype, const std::vector<std::int64_t>& dims) {
  return Type::tensor(dtype, std::span<const std::int64_t>(dims));
}

template <typename T>
std::vector<T> values(const Tensor& tensor) {
  const auto span = tensor.as<T>();
  return {span.begin(), span.end()};
}

TEST_F(ImageTest, ChannelsFirstFloatsAreScaledToOne) {
  const auto tensor = read_image(ppm(), type(DType::kF32, {1, 3, 1, 2}));
  ASSERT_TRUE(tensor) << tensor.error().message();
  EXPECT_EQ(values<float>(*tensor), (std::vector<float>{1, 1, 0, 1, 0, 1}));
}

/// A JPEG's begin, with an orientation in either order of bytes.
std::string exif_of(char orientation, bool little) {
  using namespace std::string_literals;
  const auto two = [&](char low) { return little ? low + "\0"s : "\0"s + low; };
  const auto four = [&](char low) { return little ? two(low) + "\0\0"s : "\0\0"s + two(low); };
  const auto tag = little ? "\x12\x01"s : "\x01\x12"s;
  const auto entry = tag + two(3) + four(1) + two(orientation) + "\0\0"s;
  const auto tiff = (little ? "II"s : "MM"s) + two(42) + four(8) + two(1) + entry + four(0);
  const auto name = "Exif\0\0"s;
  const auto length = static_cast<char>(2 + name.size() + tiff.size());
  return "\xFF\xD8"s + "\xFF\xE0\0\4ab"s + "\xFF\xE1\0"s + length + name + tiff;
}

int orientation_of(const std::string& bytes) {
  return exif_orientation({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
}

TEST(Exif, TellsTheOrientation) {
  for (const bool little : {false, true}) {
    for (char way = 1; way <= 8; ++way) EXPECT_EQ(orientation_of(exif_of(way, little)), way);
    EXPECT_EQ(orientation_of(exif_of(9, little)), 1);
  }
}

TEST(Exif, TakesWhatIsCutOffOrDamagedAsItStands) {
  const auto whole = exif_of(6, true);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(orientation_of(whole.substr(0, size)), 1);
    for (const char byte : {'\0', '\x7F', '\xFF'}) {
      auto damaged = whole;
      damaged[size] = byte;
      const int found = orientation_of(damaged);
      EXPECT_TRUE(found >= 1 && found <= 8);
    }
  }
}

TEST_F(ImageTest, ChannelsLastBytesStayAsTheyAre) {
  const auto last = Type::tensor(DType::kU8, std::vector<Dim>{{}, {}, {}, {3, "", -1}});
  const auto tensor = read_image(ppm(), last);
  ASSERT_TRUE(tensor) << tensor.error().message();
  EXPECT_EQ(values<std::uint8_t>(*tensor), (std::vector<std::uint8_t>{255, 0, 0, 255, 255, 255}));
}

TEST_F(ImageTest, OneChannelIsGrey) {
  const auto tensor = read_image(ppm(), type(DType::kU8, {1, 1, 1, 2}));
  ASSERT_TRUE(tensor) << tensor.error().message();
  EXPECT_EQ(tensor->as<std::uint8_t>()[1], 255);
  EXPECT_NEAR(tensor->as<std::uint8_t>()[0], 76, 2);
}

TEST_F(ImageTest, APictureIsResizedToTheInput) {
  const auto tensor = read_image(ppm(), type(DType::kF32, {3, 8, 6}));
  ASSERT_TRUE(tensor) << tensor.error().message();
  EXPECT_EQ(tensor->dims(), (std::vector<std::int64_t>{3, 8, 6}));
  for (std::size_t i = 0; i < 48; ++i) EXPECT_NEAR(tensor->as<float>()[i], 1, 0.01);  // Red.
  EXPECT_LT(tensor->as<float>()[48], 0.2);  // Green, left.
}

TEST_F(ImageTest, OpenDimensionsTakeThePicturesOwnSize) {
  Type open = Type::tensor(
      DType::kU8, std::vector<Dim>{{-1, "n", -1}, {3, "", -1}, {-1, "h", 8}, {-1, "w", 8}});
  const auto tensor = read_image(ppm(), open);
  ASSERT_TRUE(tensor) << tensor.error().message();
  EXPECT_EQ(tensor->dims(), (std::vector<std::int64_t>{1, 3, 1, 2}));
  open.dims[3].bound = 1;
  EXPECT_EQ(read_image(ppm(), open).error().message(),
            concat("picture '", at("x.ppm").string(),
                   "': its 2 pixels are over the input's bound of 1; make it smaller, or declare a "
                   "larger bound"));
}

TEST_F(ImageTest, PngJpegAndBmpAreDecoded) {
  const std::vector<unsigned char> pixels(std::size_t{16} * 16 * 3, 200);
  stbi_write_png(at("x.png").c_str(), 16, 16, 3, pixels.data(), 48);
  stbi_write_jpg(at("x.JPG").c_str(), 16, 16, 3, pixels.data(), 95);
  stbi_write_bmp(at("x.bmp").c_str(), 16, 16, 3, pixels.data());
  for (const char* name : {"x.png", "x.JPG", "x.bmp"}) {
    EXPECT_TRUE(has_image_suffix(name));
    const auto tensor = read_image(at(name), type(DType::kU8, {1, 3, 4, 4}));
    ASSERT_TRUE(tensor) << tensor.error().message();
    for (const auto x : tensor->as<std::uint8_t>()) EXPECT_NEAR(x, 200, 2);
  }
}

TEST_F(ImageTest, InputsThatTakeNoPictureAreRefused) {
  const auto message = read_image(ppm(), type(DType::kI64, {1, 128})).error().message();
  EXPECT_EQ(message,
            concat("picture '", at("x.ppm").string(),
                   "': the input takes i64[1,128], no picture: expected u8 or f32 of "
                   "[1,C,H,W] or [1,H,W,C] with 1 or 3 channels; give a .npy file instead"));
  EXPECT_FALSE(read_image(ppm(), type(DType::kF32, {2, 3, 4, 4})));
  EXPECT_FALSE(read_image(ppm(), type(DType::kF32, {1, 2, 4, 4})));
}

TEST_F(ImageTest, AbsentAndDamagedFilesAreRefused) {
  const Type any = type(DType::kU8, {3, 4, 4});
  EXPECT_EQ(read_image(at("absent.png"), any).error().code, Code::kNotFound);
  EXPECT_EQ(read_image(at(""), any).error().code, Code::kInvalidArgument);
  EXPECT_EQ(read_image(write("empty.png", ""), any).error().code, Code::kDataLoss);
  EXPECT_EQ(read_image(write("text.png", "not a picture"), any).error().code, Code::kDataLoss);
  EXPECT_THAT(read_image(write("text.ppm", "P3 1 1 255\n1 2 3\n"), any).error().message(),
              testing::HasSubstr("expected a PNG, JPEG, BMP or binary PPM picture"));
  EXPECT_EQ(read_image(write("huge.ppm", "P6 2000000000 2000000000 255\n"), any).error().code,
            Code::kDataLoss);
}

/// The header of a BMP file of 24 bits a pixel, and `pixels` behind it.
std::string bmp(std::int32_t width, std::int32_t height, const std::string& pixels) {
  constexpr std::uint32_t kBegin = 14, kHeader = 40;
  std::string bytes = "BM";
  const auto put = [&](std::uint32_t number, int count) {
    for (int i = 0; i < count; ++i, number >>= 8U) bytes += static_cast<char>(number & 0xFFU);
  };
  for (const auto number : {0U, 0U, kBegin + kHeader, kHeader}) put(number, 4);
  put(static_cast<std::uint32_t>(width), 4);
  put(static_cast<std::uint32_t>(height), 4);
  put(1, 2);
  put(24, 2);
  bytes.resize(kBegin + kHeader);
  return bytes + pixels;
}

TEST_F(ImageTest, RowsOfABmpGoUpOrDown) {
  const std::string low("\1\1\1\0", 4), high("\2\2\2\0", 4);  // Rows are filled up to 4 bytes.
  for (const int height : {2, -2}) {
    const auto file = write("x.bmp", bmp(1, height, height > 0 ? low + high : high + low));
    const auto tensor = read_image(file, type(DType::kU8, {1, 1, 2, 1}));
    ASSERT_TRUE(tensor) << tensor.error().message();
    EXPECT_EQ(values<std::uint8_t>(*tensor), (std::vector<std::uint8_t>{2, 1})) << height;
  }
}

TEST_F(ImageTest, SizesThatNoPictureHasAreRefused) {
  constexpr auto kLeast = std::numeric_limits<std::int32_t>::min();
  const std::pair<int, int> sizes[] = {{0, 4},   {4, 0},      {0, 0},      {-4, 4},
                                       {-4, -4}, {4, kLeast}, {kLeast, 4}, {40000, -40000}};
  for (const auto& [width, height] : sizes) {
    const auto file = write("x.bmp", bmp(width, height, std::string(96, '\0')));
    const auto tensor = read_image(file, type(DType::kU8, {1, 3, 4, 4}));
    ASSERT_FALSE(tensor) << width << " x " << height;
    EXPECT_EQ(tensor.error().code, Code::kDataLoss);
  }
  EXPECT_EQ(
      read_image(write("x.bmp", bmp(-4, 0, "")), type(DType::kU8, {3, 4, 4})).error().message(),
      concat("picture '", at("x.bmp").string(),
             "': cannot be decoded (0 rows of -4 pixels): expected a PNG, JPEG, BMP or binary PPM "
             "picture; save it again as one"));
}

TEST_F(ImageTest, ABmpThatIsCutOffIsRefused) {
  const std::string rows("\1\1\1\0\2\2\2\0", 8);
  const Type any = type(DType::kU8, {1, 1, 2, 1});
  for (const int height : {2, -2}) {
    const auto whole = bmp(1, height, rows);
    for (std::size_t size = 1; size < whole.size() - 1; ++size) {
      EXPECT_FALSE(read_image(write("x.bmp", whole.substr(0, size)), any)) << size;
    }
    // What fills the last row up is no pixel.
    EXPECT_TRUE(read_image(write("x.bmp", whole.substr(0, whole.size() - 1)), any));
  }
  EXPECT_EQ(
      read_image(write("x.bmp", bmp(30000, 30000, rows)), any).error().message(),
      concat("picture '", at("x.bmp").string(),
             "': cannot be decoded (it ends too early): expected a PNG, JPEG, BMP or binary PPM "
             "picture; save it again as one"));
}

}  // namespace
}  // namespace penstock
