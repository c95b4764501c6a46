// A layer normalisation that is written out in a dozen operators.
#pragma once

#include <optional>
#include <vector>

#include "builder.h"

namespace penstock::onednn {

/// (x - mean) / sqrt(variance + epsilon) * scale + shift, along the last dimension.
struct WrittenNorm {
  ValueId x = ValueId::kNone;
  std::vector<float> scale, shift;
  float epsilon = 0;
  std::vector<NodeId> nodes;
  ValueId result = ValueId::kNone;
};

/// That begins with this ReduceMean; empty if none does, or if others read what it computes
/// between.
std::optional<WrittenNorm> written_norm_at(const Builder& builder, NodeId mean);

/// As the library's primitive.
Status lower_written_norm(Builder& builder, const WrittenNorm& norm);

}  // namespace penstock::onednn
