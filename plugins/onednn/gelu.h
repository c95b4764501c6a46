// GELU: found where converters write it out in simple operators, in any order of its factors.
#pragma once

#include <optional>
#include <vector>

#include "chain.h"

namespace penstock::onednn {

/// x / 2 (1 + erf(x / sqrt(2))) of `value`, whose two readers are `first`, on the way to erf, and
/// `other`; empty if it is none.
std::optional<Link> gelu_by_erf(const Builder& builder, ValueId value, NodeId first, NodeId other);

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) of `value`, which has these three readers;
/// empty if it is none.
std::optional<Link> gelu_by_tanh(const Builder& builder, ValueId value,
                                 std::vector<NodeId> readers);

}  // namespace penstock::onednn
