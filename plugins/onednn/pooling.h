// Poolings, for the operators that are one in other words.
#pragma once

#include "builder.h"
#include "window.h"

namespace penstock::onednn {

/// Appends a pooling of `from` with what its result's readers fuse. `dims`: of the result as the
/// primitive sees it.
Status append_pooling(Builder& builder, NodeId id, dnnl_alg_kind_t algorithm, const Place& from,
                      const Window& window, const Dims& dims);

}  // namespace penstock::onednn
