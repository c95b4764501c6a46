// Way: a backend and the settings that it runs a part with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/build/build.h"
#include "penstock/partition/split.h"

namespace penstock::build {

struct Way {
  std::string backend;
  std::map<std::string, std::string> options;  ///< The user's own, and the precision if not f32.

  /// "onednn", "openvino:bf16"
  [[nodiscard]] std::string name() const;
  bool operator==(const Way&) const = default;
};

/// The ways of using a backend that may be tried: as it is; in lower precisions where the user
/// allows a tolerance and the machine has the instructions. Alone the one that the user's options
/// ask for.
std::vector<Way> ways_of(const backend::Backend& backend, const Options& options);

/// What runs the part.
Way way_of(const partition::ChosenPart& part);

}  // namespace penstock::build
