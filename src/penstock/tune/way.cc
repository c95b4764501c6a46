// Lists the available backends with the user's options, and lower precisions if allowed.
#include "penstock/tune/way.h"

#include <algorithm>
#include <iterator>

#include "penstock/backend/request.h"

namespace penstock::tune {
namespace {

std::vector<Way> ways_of(const backend::Backend& backend, const Options& options) {
  Way own{backend.describe().name, {}};
  if (const auto given = options.backend_options.find(own.backend);
      given != options.backend_options.end()) {
    own.options = given->second;
  }
  std::vector<Way> ways{own};
  if (own.options.contains(backend::kPrecisionOption) || !options.tolerance) return ways;
  for (const auto precision : backend.lower_precisions()) {
    own.options[backend::kPrecisionOption] = backend::to_string(precision);
    ways.push_back(own);
  }
  return ways;
}

}  // namespace

std::string Way::name() const {
  const auto precision = options.find(backend::kPrecisionOption);
  return precision == options.end() ? backend : concat(backend, ":", precision->second);
}

Result<std::vector<Way>> usable_ways(const Options& options, const backend::Registry& backends,
                                     const device::Device& device,
                                     std::vector<std::string>& notes) {
  for (const auto& name : options.backends) {
    if (const auto found = backends.find(name); !found) return found.error();
  }
  for (const auto& [name, settings] : options.backend_options) {
    if (const auto found = backends.find(name); !found) return found.error();
  }
  std::vector<Way> ways;
  std::string reasons;
  for (const auto& backend : backends.all()) {
    const auto description = backend->describe();
    const bool wanted =
        options.backends.empty() ||
        std::ranges::find(options.backends, description.name) != options.backends.end();
    const bool runs_here = backend->accepts(device);
    if (!wanted || !runs_here) continue;
    if (description.unavailable.empty()) {
      std::ranges::move(ways_of(*backend, options), std::back_inserter(ways));
    } else {
      const auto reason = concat(description.name, ": ", description.unavailable);
      reasons += "; " + reason;
      if (!options.backends.empty()) notes.push_back("left out: " + reason);
    }
  }
  if (ways.empty() && device.is_accelerator()) {
    return make_error(
        Code::kFailedPrecondition, "device '", device::to_string(device),
        "': no backend that may be chosen runs on it; 'penstock backends' lists those "
        "that are here",
        reasons);
  }
  if (ways.empty()) {
    return make_error(Code::kFailedPrecondition, "backends: none can run anything", reasons);
  }
  std::ranges::sort(ways, {}, &Way::name);
  return ways;
}

Way way_of(const partition::ChosenPart& part) {
  return {part.backend, part.options};
}

}  // namespace penstock::tune
