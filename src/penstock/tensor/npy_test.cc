// Arrays written and read again, and files that are foreign, truncated, hostile or damaged.
#include "penstock/tensor/npy.h"

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class NpyTest : public testing::Test {
 protected:
  fs::path write(const std::string& bytes) {
    std::ofstream(file(), std::ios::binary) << bytes;
    return file();
  }
  fs::path file() { return folder_ / "x.npy"; }

  /// The message of reading `bytes`, the file's name left out.
  std::string message_of(const std::string& bytes) {
    const auto tensor = read_npy(write(bytes));
    if (tensor) return "read";
    const std::string start = concat("file '", file().string(), "': ");
    EXPECT_TRUE(tensor.error().message().starts_with(start)) << tensor.error().message();
    return tensor.error().message().substr(start.size());
  }

 private:
  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

std::string npy(std::string dictionary, const std::string& data, char version = 1) {
  dictionary += '\n';
  std::string bytes = std::string("\x93NUMPY", 6) + version + '\0';
  bytes += static_cast<char>(dictionary.size() & 0xFFU);
  bytes += static_cast<char>(dictionary.size() >> 8U);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + dictionary + data;
}

std::string header(const std::string& type, const std::string& shape,
                   const char* fortran = "False") {
  return concat("{'descr': '", type, "', 'fortran_order': ", fortran, ", 'shape': ", shape, ", }");
}

constexpr DType kWritten[] = {
    DType::kF32, DType::kU8,   DType::kI8,   DType::kU16,      DType::kI16,   DType::kI32,
    DType::kI64, DType::kBool, DType::kF16,  DType::kF64,      DType::kU32,   DType::kU64,
    DType::kC64, DType::kC128, DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2};

TEST_F(NpyTest, EveryTypeAndRankComesBackAsItWasWritten) {
  const std::vector<std::vector<std::int64_t>> shapes = {{},     {0},       {5},
                                                         {2, 3}, {1, 0, 4}, {2, 1, 3, 2}};
  for (const DType dtype : kWritten) {
    for (const auto& shape : shapes) {
      Tensor tensor = Tensor::allocate(dtype, shape);
      auto* bytes = static_cast<unsigned char*>(tensor.data());
      for (std::size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<unsigned char>(i % 2);
      const auto written = write_npy(tensor, file());
      ASSERT_TRUE(written) << written.error().message();
      const auto back = read_npy(file(), dtype);
      ASSERT_TRUE(back) << back.error().message();
      EXPECT_EQ(back->type(), tensor.type());
      EXPECT_TRUE(tensor.bytes() == 0 ||
                  std::memcmp(back->data(), tensor.data(), tensor.bytes()) == 0);
    }
  }
}

TEST_F(NpyTest, TextsComeBackAsTheyWereWritten) {
  const Tensor tensor =
      Tensor::strings({2, 2}, {"", "a", "gr\xC3\xBC\xC3\x9F", "\xF0\x9F\x9A\xB0"});
  ASSERT_TRUE(write_npy(tensor, file()));
  const auto back = read_npy(file());
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->dims(), tensor.dims());
  EXPECT_EQ(back->strings(), tensor.strings());
}

TEST_F(NpyTest, TheHeaderIsPaddedTo64BytesAsNumPyAsks) {
  ASSERT_TRUE(write_npy(Tensor::allocate(DType::kF32, {3}), file()));
  EXPECT_EQ(fs::file_size(file()), 128U + 12U);
}

TEST_F(NpyTest, FortranOrderIsConverted) {
  // [[0, 1, 2], [3, 4, 5]] with the first index fastest.
  const auto tensor =
      read_npy(write(npy(header("|u1", "(2, 3)", "True"), std::string("\0\3\1\4\2\5", 6))));
  ASSERT_TRUE(tensor) << tensor.error().message();
  const auto values = tensor->as<std::uint8_t>();
  EXPECT_EQ(std::vector(values.begin(), values.end()),
            (std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(NpyTest, BigEndianIsConverted) {
  const auto tensor = read_npy(write(npy(header(">i2", "(2,)"), std::string("\1\2\0\xFF", 4))));
  ASSERT_TRUE(tensor) << tensor.error().message();
  EXPECT_EQ(tensor->as<std::int16_t>()[0], 0x0102);
  EXPECT_EQ(tensor->as<std::int16_t>()[1], 0xFF);
}

TEST_F(NpyTest, KeysStandInAnyOrderAndLaterVersionsAreRead) {
  const std::string dictionary = "{\"shape\":(1L,), 'fortran_order':False,'descr':'|b1'}";
  for (const char version : {'\1', '\2', '\3'})
    EXPECT_EQ(message_of(npy(dictionary, "\1", version)), "read");
}

TEST_F(NpyTest, AnAbsentFileIsNotFound) {
  const auto tensor = read_npy(file());
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code, Code::kNotFound);
  EXPECT_EQ(tensor.error().message(),
            concat("file '", file().string(),
                   "': cannot be read: No such file or directory; check the path"));
}

TEST_F(NpyTest, AFolderIsRefused) {
  fs::create_directory(file());
  EXPECT_EQ(read_npy(file()).error().code, Code::kInvalidArgument);
}

TEST_F(NpyTest, WhatIsNoArrayIsRefusedWithTheReason) {
  EXPECT_EQ(message_of(""), "is empty; save the array again with numpy.save");
  EXPECT_EQ(message_of("hello, this is text"),
            "is not a .npy file: it does not begin as one; save the array again with numpy.save");
  EXPECT_EQ(message_of(npy(header("<f4", "(3,)"), "12345678")),
            "is truncated: expected 12 bytes after its header, found 8; "
            "save the array again with numpy.save");
  EXPECT_EQ(message_of(npy(header("<f4", "(1,)"), "12345678")),
            "is too long: expected 4 bytes after its header, found 8; "
            "save the array again with numpy.save");
  EXPECT_EQ(message_of(npy(header("|O", "(1,)"), "x")),
            "holds pickled Python objects, which are not read: expected numbers, booleans or "
            "texts; convert the array to such a dtype before saving it");
  EXPECT_EQ(
      message_of(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "x")),
      "holds records: expected an array of numbers, booleans or texts; save each field as an "
      "array of its own");
  EXPECT_EQ(message_of(npy(header("<M8[ns]", "(1,)"), "12345678")),
            "holds values of type 'M8[ns]': expected numbers, booleans or texts");
  EXPECT_EQ(message_of(npy(header("|V1", "(1,)"), "1")),
            "holds 8-bit values of a type that .npy files cannot name; give them as a .pb file");
  EXPECT_EQ(message_of(npy(header("<f4", "(1,)"), "1234", 9)),
            "is of .npy version 9: expected 1, 2 or 3");
}

TEST_F(NpyTest, HostileHeadersAskForNoMemory) {
  for (const std::string shape :
       {"(4611686018427387904, 4)", "(9223372036854775807, 9223372036854775807)",
        "(99999999999999999999,)", "(-1,)", "(1,", "1", "(1e9,)", "(1000000000000,)"}) {
    const auto tensor = read_npy(write(npy(header("<f4", shape), "1234")));
    ASSERT_FALSE(tensor) << shape;
    EXPECT_EQ(tensor.error().code, Code::kDataLoss) << tensor.error().message();
  }
  EXPECT_NE(message_of(npy(header("<U0", "(1000000000000,)"), "")), "read");
  EXPECT_NE(message_of(npy(header("<U99999999999999999", "(1,)"), "")), "read");
  std::string endless = std::string("\x93NUMPY\2\0\xFF\xFF\xFF\xFF", 12);
  EXPECT_EQ(message_of(endless),
            "is truncated in its header; save the array again with numpy.save");
}

TEST_F(NpyTest, EveryTruncationIsRefused) {
  const std::string whole = npy(header("<f4", "(2, 2)"), std::string(16, 'x'));
  ASSERT_EQ(message_of(whole), "read");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(message_of(whole.substr(0, size)), "read") << size;
  }
}

TEST_F(NpyTest, SeededRandomChangesNeverCrash) {
  const std::string whole = npy(header("<f4", "(2, 2)"), std::string(16, 'x'));
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string changed = whole;
    for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    std::size_t at = 0;
    const ByteSource source = [&](std::span<std::byte> bytes) -> Status {
      EXPECT_LE(at + bytes.size(), changed.size());
      std::memcpy(bytes.data(), changed.data() + at, bytes.size());
      at += bytes.size();
      return {};
    };
    static_cast<void>(read_npy(source, changed.size()));
  }
}

TEST_F(NpyTest, ValuesWithoutANpyFormAreRefused) {
  EXPECT_EQ(write_npy(Tensor::sequence({}), file()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(
      write_npy(Tensor::allocate(DType::kI4, {2}), file()).error().message(),
      concat("file '", file().string(), "': values of type i4 have no .npy form; use a .pb file"));
  EXPECT_EQ(write_npy(Tensor::strings({1}, {"\xFF"}), file()).error().code, Code::kInvalidArgument);
}

TEST_F(NpyTest, AFolderThatIsNotThereCannotBeWrittenTo) {
  const auto status = write_npy(Tensor::allocate(DType::kF32, {1}), file() / "absent" / "x.npy");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kNotFound);
}

TEST_F(NpyTest, TheLengthOfAStreamedFileIsKnownFromItsHeader) {
  for (const int version : {1, 2}) {
    std::string file;
    if (version == 1) {
      file = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", std::string(24, 'x'));
    } else {
      const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}\n";
      file = std::string("\x93NUMPY\x02\x00", 8) + static_cast<char>(text.size()) +
             std::string(3, '\0') + text + std::string(24, 'x');
    }
    std::uint64_t wanted = 0;
    for (std::uint64_t more = 1; more > wanted;) {
      wanted = more;
      const auto start = std::as_bytes(std::span(file)).first(wanted);
      EXPECT_TRUE(may_begin_npy(start));
      const auto bytes = npy_bytes(start);
      ASSERT_TRUE(bytes) << bytes.error().message();
      more = *bytes;
    }
    EXPECT_EQ(wanted, file.size());
  }
  const std::string other = "this is no array";
  EXPECT_FALSE(may_begin_npy(std::as_bytes(std::span(other))));
  EXPECT_FALSE(npy_bytes(std::as_bytes(std::span(other))));
  const std::string huge =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "");
  EXPECT_FALSE(npy_bytes(std::as_bytes(std::span(huge))));
}

}  // namespace
}  // namespace penstock
