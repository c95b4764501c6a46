// What penstock_load() may be told, as text.
#pragma once

#include <span>
#include <string>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/c/penstock.h"
#include "penstock/partition/split.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/stream_options.h"

namespace penstock::c {

struct LoadOptions {
  plan::StreamOptions stream;
  pipeline::Options pipeline;
  partition::SplitOptions split;  ///< For models alone.
  bool evict = false;             ///< Of stream.streams, once all is read.
  std::string first_of_model;     ///< The first option that is for models alone; empty: none.
};

/// \error kInvalidArgument  an option is unknown, offers the nearest, or its value makes no sense.
/// \error kNotFound         no such backend.
Result<LoadOptions> read_options(std::span<const penstock_option> options,
                                 const backend::Registry& backends);

}  // namespace penstock::c
