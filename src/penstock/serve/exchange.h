// From a request to a frame, and from a frame to a reply.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/frame.h"
#include "penstock/plan/bound.h"
#include "penstock/plan/plan.h"
#include "penstock/serve/request.h"
#include "penstock/serve/shared_memory.h"

namespace penstock::serve {

/// What a model reads and gives: the same for as long as it is served.
struct Interface {
  std::vector<plan::TensorInfo> inputs;
  std::vector<plan::TensorInfo> outputs;
  plan::BoundValues bound;  ///< Inputs that have a value already.
};

/// \error kInvalidArgument  a tensor that the protocol cannot carry.
Status check_interface(const Interface& interface);

/// The frame's inputs, in the model's order. Tensors of regions are read in place where they lie as
/// engines want them, else copied: `request.copies` counts.
/// \error kInvalidArgument  an input is unknown, missing, twice, or of another type; its place is
///                          not within its region; contents that belong to none.
Result<std::vector<Tensor>> read_inputs(Request& request, const Interface& interface,
                                        const SharedMemory& regions);

/// \error kInvalidArgument  an output is unknown or asked for twice.
Status check_outputs(const Request& request, const Interface& interface);

/// Moves the outputs out of the frame, and copies those that have a place there.
/// \pre  output.ok(), and check_outputs()
/// \error kInvalidArgument  a place is not within its region, or too small.
Result<Reply> make_reply(const Request& request, const Interface& interface,
                         const SharedMemory& regions, pipeline::Output& output,
                         std::uint64_t& copies);

}  // namespace penstock::serve
