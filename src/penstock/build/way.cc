#include "penstock/build/way.h"

#include "penstock/backend/request.h"

namespace penstock::build {

std::string Way::name() const {
  const auto precision = options.find(backend::kPrecisionOption);
  return precision == options.end() ? backend : concat(backend, ":", precision->second);
}

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

Way way_of(const partition::ChosenPart& part) {
  return {part.backend, part.options};
}

}  // namespace penstock::build
