// Looks at the first bytes: signatures of formats, then whether all of the beginning is text.
#include "penstock/graph/no_model.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>

namespace penstock::graph {
namespace {

constexpr std::size_t kLooked = 512;  ///< Bytes of the beginning.

struct Format {
  std::size_t offset;
  std::string_view bytes;
  std::string_view what;  ///< As the rest of a sentence, with what to do.
};

constexpr std::string_view kConvert = "; export the network to ONNX, and give that file";

constexpr std::array kFormats = {
    Format{0, "version https://git-lfs.github.com",
           "it is a pointer of Git LFS in place of the file; fetch the file itself with 'git lfs "
           "pull', or download it"},
    Format{0, "PK\x03\x04", "it is a zip archive; unpack it, or give a package (.zip)"},
    Format{0, "\x1f\x8b", "it is compressed (gzip); unpack it"},
    Format{0, "\x28\xb5\x2f\xfd", "it is compressed (zstd); unpack it"},
    Format{0, "BZh", "it is compressed (bzip2); unpack it"},
    Format{0, "\xfd\x37zXZ", "it is compressed (xz); unpack it"},
    Format{0, "\x89HDF\r\n", "it is an HDF5 file, as Keras writes them"},
    Format{4, "TFL3", "it is a TensorFlow Lite model"},
    Format{4, "ORTM",
           "it is in ONNX Runtime's own format (.ort); give the .onnx that it was made from"},
    Format{0, "\x80\x02", "it is a Python pickle, as PyTorch writes them"},
    Format{0, "\x80\x04", "it is a Python pickle, as PyTorch writes them"},
    Format{0, "\x93NUMPY", "it is an array of NumPy (.npy), as frames are given"},
    Format{0, "GGUF", "it is a GGUF file, as llama.cpp reads them"},
    Format{0,
           "\x7f"
           "ELF",
           "it is a program or a library"},
    Format{0, "%PDF", "it is a PDF document"},
    Format{0, "\x89PNG", "it is a picture (PNG)"},
};

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

/// Printable, most of it ASCII: protobuf has bytes under 32 at its beginning.
bool is_text(std::string_view start) {
  const auto is_printable = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\n' || byte == '\r' || byte == '\t' || (byte >= 32 && byte != 127);
  };
  const auto ascii =
      std::ranges::count_if(start, [](char c) { return static_cast<unsigned char>(c) < 128; });
  return std::ranges::all_of(start, is_printable) &&
         2 * static_cast<std::size_t>(ascii) > start.size();
}

std::string_view kind_of_text(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  text = begin == std::string_view::npos ? std::string_view() : text.substr(begin);
  if (starts_with_word(text, "<!doctype html") || starts_with_word(text, "<html")) {
    return "it is a web page, as servers send one in place of a file; download the file itself, "
           "and look at the page for why";
  }
  if (starts_with_word(text, "<?xml")) {
    return "it is an XML file, as OpenVINO has beside its weights; give the .onnx that it was made "
           "from";
  }
  if (text.starts_with('{')) return "it is JSON, perhaps a server's answer; download it again";
  return "it is text; give the model's own file (.onnx), or download it again";
}

bool has_own_advice(std::string_view what) {
  return what.find(';') != std::string_view::npos;
}

}  // namespace

Error not_a_model(std::string_view bytes, std::string_view otherwise) {
  const auto say = [](std::string_view what, std::string_view more) {
    return make_error(Code::kDataLoss, "not an ONNX model: ", what, more);
  };
  const auto start = bytes.substr(0, kLooked);
  for (const auto& format : kFormats) {
    if (start.size() < format.offset || !start.substr(format.offset).starts_with(format.bytes)) {
      continue;
    }
    return say(format.what, has_own_advice(format.what) ? std::string_view() : kConvert);
  }
  if (!start.empty() && is_text(start)) return say(kind_of_text(start), {});
  return make_error(Code::kDataLoss, "not an ONNX model (", otherwise,
                    "); export or copy it again");
}

}  // namespace penstock::graph
