// Way: a backend and the settings that it runs a part with.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/partition/split.h"
#include "penstock/tune/build.h"

namespace penstock::tune {

struct Way {
  std::string backend;
  std::map<std::string, std::string> options;  ///< The user's own, and the precision if not f32.

  /// "onednn", "openvino:bf16"
  [[nodiscard]] std::string name() const;
  bool operator==(const Way&) const = default;
};

/// The ways that may be tried on devices like this one, by name: each backend that may be chosen,
/// runs there and is there as it is; in
/// lower precisions where the user allows a tolerance and the machine has the instructions. Alone
/// the one that the user's options ask for. `notes` get the backends asked for by name that are not
/// there.
/// \error kNotFound            the options name a backend that nobody knows
///        kFailedPrecondition  none is there; the message tells why of each
Result<std::vector<Way>> usable_ways(const Options& options, const backend::Registry& backends,
                                     const device::Device& device, std::vector<std::string>& notes);

/// What runs the part.
Way way_of(const partition::ChosenPart& part);

}  // namespace penstock::tune
