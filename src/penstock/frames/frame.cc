// Hashes types and values of all tensors, those in sequences too, and repeats frames in turn.
#include "penstock/frames/frame.h"

#include <span>

#include "penstock/base/hash.h"

namespace penstock::frames {
namespace {

void add(const Tensor& tensor, Sha256& digest) {
  digest.update(concat(tensor.type(), ";"));
  switch (tensor.kind()) {
    case Tensor::Kind::kDense:
      digest.update(std::span(static_cast<const std::byte*>(tensor.data()), tensor.bytes()));
      break;
    case Tensor::Kind::kStrings:
      for (const auto& text : tensor.strings()) digest.update(concat(text.size(), ":", text));
      break;
    case Tensor::Kind::kSequence:
      digest.update(concat(tensor.elements().size(), ";"));
      for (const auto& element : tensor.elements()) add(element, digest);
      break;
    case Tensor::Kind::kNone:
    case Tensor::Kind::kOpaque:
      break;
  }
}

}  // namespace

std::vector<Frame> repeated(std::vector<Frame> frames, std::size_t least, bool sequence) {
  if (sequence) return frames;
  const std::size_t given = frames.size();
  for (std::size_t i = given; i < least; ++i) frames.push_back(frames[i % given]);
  return frames;
}

std::string digest_of(const std::vector<Frame>& frames) {
  Sha256 digest;
  for (const auto& frame : frames) {
    for (const auto& tensor : frame) add(tensor, digest);
    digest.update("|");
  }
  return digest.finish();
}

}  // namespace penstock::frames
