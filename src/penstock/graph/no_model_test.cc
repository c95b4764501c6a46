// What files of other formats are called, and what is advised.
#include "penstock/graph/no_model.h"

#include <string>

#include <gmock/gmock.h>

#include "penstock/graph/import.h"

namespace penstock::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string refusal_of_bytes(std::string_view bytes) {
  const auto graph = import_onnx_bytes(bytes, {}, {});
  EXPECT_FALSE(graph);
  return graph ? std::string() : graph.error().message();
}

TEST(NoModelTest, SaysThatAFileIsAPointerOfGitLfs) {
  EXPECT_THAT(
      refusal_of_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:46\nsize 12\n"),
      HasSubstr("a pointer of Git LFS in place of the file; fetch the file itself with 'git "
                "lfs pull'"));
}

TEST(NoModelTest, SaysThatAFileIsAWebPage) {
  for (const auto* page :
       {"<!DOCTYPE html>\n<html>404</html>", "\n  <HTML><head>", "\xef\xbb\xbf<html>"}) {
    EXPECT_THAT(refusal_of_bytes(page), HasSubstr("it is a web page")) << page;
  }
}

TEST(NoModelTest, SaysThatAFileIsText) {
  EXPECT_THAT(refusal_of_bytes("Hello, this is text.\n"),
              HasSubstr("it is text; give the model's own file"));
  EXPECT_THAT(refusal_of_bytes("{\"error\": \"Not found\"}"), HasSubstr("it is JSON"));
  EXPECT_THAT(refusal_of_bytes("<?xml version=\"1.0\"?><net/>"), HasSubstr("it is an XML file"));
}

TEST(NoModelTest, NamesOtherFormats) {
  using namespace std::string_view_literals;
  EXPECT_THAT(refusal_of_bytes("\x1f\x8b\x08\0\0"sv), HasSubstr("compressed (gzip); unpack it"));
  EXPECT_THAT(refusal_of_bytes("\x89HDF\r\n\x1a\n\0"sv),
              HasSubstr("an HDF5 file, as Keras writes them; export the network to ONNX"));
  EXPECT_THAT(refusal_of_bytes("\x1c\0\0\0TFL3\0"sv), HasSubstr("a TensorFlow Lite model; export"));
  EXPECT_THAT(refusal_of_bytes("\x80\x02}q\0."sv), HasSubstr("a Python pickle, as PyTorch writes"));
}

TEST(NoModelTest, SaysOfAllElseWhatTheReaderSays) {
  EXPECT_EQ(not_a_model("\x08\x07", "it holds no graph").message(),
            "not an ONNX model (it holds no graph); export or copy it again");
  EXPECT_THAT(not_a_model("", "it is empty").message(), Not(HasSubstr("text")));
}

}  // namespace
}  // namespace penstock::graph
