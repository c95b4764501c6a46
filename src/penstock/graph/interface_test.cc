// Inputs and outputs read from a file and from bytes, some of which are no model.
#include "penstock/graph/interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

constexpr const char* kModel = R"(
<ir_version: 8, opset_import: ["" : 17]>
f (float[n,3] x, float[2] w, int64 k) => (float[m] y, float[n,3] x)
<float[2] w = {1, 2}> {
  z = Mul(x, w)
  y = NonZero(z)
})";

std::string text_of(const std::vector<Interface::Entry>& entries) {
  return join(entries, "; ", [](const auto& entry) { return concat(entry.name, " ", entry.type); });
}

TEST(InterfaceTest, ListsInputsWithoutInitialisersAndOutputsInTheFilesOrder) {
  const auto interface = read_interface_bytes(bytes_of_text(kModel));
  ASSERT_TRUE(interface) << interface.error().message();
  EXPECT_EQ(text_of(interface->inputs), "x f32[n,3]; k i64[]");
  EXPECT_EQ(text_of(interface->outputs), "y f32[m]; x f32[n,3]");
}

TEST(InterfaceTest, ReadsAFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "model.onnx";
  std::ofstream(file, std::ios::binary) << bytes_of_text(kModel);
  const auto interface = read_interface(file);
  ASSERT_TRUE(interface) << interface.error().message();
  EXPECT_EQ(interface->inputs.size(), 2U);
  EXPECT_EQ(read_interface(folder.path() / "absent.onnx").error().code, Code::kNotFound);
}

TEST(InterfaceTest, RefusesWhatIsNoModel) {
  EXPECT_EQ(read_interface_bytes("").error().message(),
            "not an ONNX model (it is empty); export or copy it again");
  EXPECT_EQ(read_interface_bytes("junk").error().code, Code::kDataLoss);
  const std::string bytes = bytes_of_text(kModel);
  EXPECT_EQ(read_interface_bytes(std::string_view(bytes).substr(0, bytes.size() / 2)).error().code,
            Code::kDataLoss);
}

}  // namespace
}  // namespace penstock::graph
