// What a person reads of a ready-made function: its ports, and how it stands in YAML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/ready/ready.h"

namespace penstock::ready {

/// A function as documents and `penstock functions` show it, made of its declaration alone.
struct Sheet {
  const Declaration* declaration = nullptr;
  function::Settings given;                    ///< What has to be given, as an example.
  std::vector<backend::Port> inputs, outputs;  ///< With what is given, and all else as usual.
  std::string yaml;  ///< A node of an application, which reads inputs of the same names.
};

/// \error kNotFound  no such function: names those that there are.
Result<Sheet> sheet(std::string_view name);

/// What a function makes of what, without the networks that want it: fits one line.
std::string_view summary(const Declaration& declaration);

}  // namespace penstock::ready
