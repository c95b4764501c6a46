// Another shape of as many elements, one dimension of which may be left to be computed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/ready/kernel.h"
#include "penstock/ready/ready.h"

namespace penstock::ready {

/// How many elements a shape has at most. \pre  sizes and bounds are over 0, as settings have them.
std::int64_t elements_of(const std::vector<Dim>& dims);

/// `symbol`, or a longer one where an open dimension of `dims` has that name already.
std::string unused(const std::vector<Dim>& dims, std::string symbol);

/// The dimensions that `to` makes of a tensor of type `from`. A dimension of `to` that is not fixed
/// is what the others leave: open where `from` is, then of its name if it stays the same.
/// \error kInvalidArgument  they have not as many elements; `setting` is named.
Result<std::vector<Dim>> reshaped(std::string_view setting, const Type& from, std::vector<Dim> to);

/// The declaration of `name`, a setting of that kind. `usual` empty: it has to be given.
Setting reshape_setting(std::string_view name, std::string_view says, std::string_view usual = {});

}  // namespace penstock::ready
