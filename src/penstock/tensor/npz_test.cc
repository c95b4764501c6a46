// Named arrays written and read again, and archives that are deflated, damaged or truncated.
#include "penstock/tensor/npz.h"

#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include "tests/support/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class NpzTest : public testing::Test {
 protected:
  fs::path file() { return folder_ / "x.npz"; }
  void write(const std::string& bytes) { std::ofstream(file(), std::ios::binary) << bytes; }
  std::string bytes() {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Packs `content` as the entry `name`, deflated.
  void pack(const char* name, const std::string& content) {
    zip_t* archive = zip_open(file().c_str(), ZIP_CREATE, nullptr);
    zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
    const auto index = zip_file_add(archive, name, source, ZIP_FL_ENC_UTF_8);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_DEFLATE, 9);
    zip_close(archive);
  }

 private:
  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

NamedTensors two() {
  Tensor first = Tensor::allocate(DType::kF32, {2});
  first.as<float>()[1] = 4.5F;
  return {{"a/b:0", first}, {"", Tensor::allocate(DType::kI64, {})}};
}

TEST_F(NpzTest, NamesAndValuesComeBackInOrder) {
  const auto status = write_npz(two(), file());
  ASSERT_TRUE(status) << status.error().message();
  const auto back = read_npz(file());
  ASSERT_TRUE(back) << back.error().message();
  ASSERT_EQ(back->size(), 2U);
  EXPECT_EQ((*back)[0].first, "a/b:0");
  EXPECT_EQ((*back)[0].second.as<float>()[1], 4.5F);
  EXPECT_EQ((*back)[1].first, "");
  EXPECT_EQ((*back)[1].second.type(), two()[1].second.type());
}

TEST_F(NpzTest, TheSameTensorsGiveTheSameBytes) {
  ASSERT_TRUE(write_npz(two(), file()));
  const std::string first = bytes();
  ASSERT_TRUE(write_npz(two(), file()));
  EXPECT_EQ(bytes(), first);
}

TEST_F(NpzTest, DeflatedArraysAreRead) {
  const std::string dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (500,)}\n";
  std::string npy("\x93NUMPY\1\0", 8);
  npy += static_cast<char>(dictionary.size());
  npy += '\0';
  pack("x.npy", npy + dictionary + std::string(500, 'z'));
  const auto back = read_npz(file());
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ((*back)[0].second.as<std::uint8_t>()[499], 'z');
}

TEST_F(NpzTest, AnEntryThatIsNoArrayIsNamed) {
  pack("notes.txt", "hello, this is not an array");
  const auto back = read_npz(file());
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Code::kDataLoss);
  EXPECT_EQ(back.error().message(),
            concat("file '", file().string(),
                   "': array 'notes.txt': is not a .npy file: it does not begin as one; save the "
                   "array again with numpy.save"));
}

TEST_F(NpzTest, AbsentFilesFoldersAndOtherFilesAreRefused) {
  EXPECT_EQ(read_npz(file()).error().code, Code::kNotFound);
  write("this is no zip");
  EXPECT_EQ(read_npz(file()).error().code, Code::kDataLoss);
  EXPECT_EQ(read_npz(file().parent_path()).error().code, Code::kInvalidArgument);
}

TEST_F(NpzTest, AChangedByteIsNoticed) {
  ASSERT_TRUE(write_npz(two(), file()));
  std::string changed = bytes();
  const auto at = changed.find("\x93NUMPY") + 128;  // The first number's first byte.
  changed[at] = static_cast<char>(changed[at] + 1);
  write(changed);
  const auto back = read_npz(file());
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Code::kDataLoss);
}

TEST_F(NpzTest, EveryTruncationIsRefused) {
  ASSERT_TRUE(write_npz(two(), file()));
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    write(whole.substr(0, size));
    EXPECT_FALSE(read_npz(file())) << size;
  }
}

}  // namespace
}  // namespace penstock
