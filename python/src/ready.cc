#include "ready.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "errors.h"
#include "gil.h"
#include "penstock/base/words.h"
#include "penstock/ready/caller.h"
#include "penstock/ready/ready.h"
#include "penstock/ready/sheet.h"
#include "tensors.h"

namespace penstock::python {
namespace {

using Told = std::tuple<std::string, std::string, std::string, std::string>;
using NamedTypes = std::vector<std::pair<std::string, std::string>>;
using SheetParts = std::tuple<std::string, std::vector<Told>, function::Settings, NamedTypes,
                              NamedTypes, std::string>;

NamedTypes told(std::span<const backend::Port> ports) {
  NamedTypes all;
  for (const auto& port : ports) all.emplace_back(port.name, to_string(port.type));
  return all;
}

/// One replica of a function, which threads of Python use in turn.
class Ready {
 public:
  Ready(const std::string& name, const function::Settings& settings)
      : name_(name), caller_(value_or_raise(called(name, settings))) {}

  [[nodiscard]] NamedTypes inputs() const { return told(caller_.inputs()); }
  [[nodiscard]] NamedTypes outputs() const { return told(caller_.outputs()); }

  nb::list call(nb::args arrays) {
    const auto ports = caller_.inputs();
    if (arrays.size() != ports.size()) {
      raise(invalid_argument("expected ", counted(ports.size(), "input"), " (", quoted_names(ports),
                             "), found ", arrays.size())
                .within({Where::kFunction, name_}));
    }
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < ports.size(); ++i) {
      auto input = from_python(arrays[i], {ports[i].name, ports[i].type});
      if (!input) {
        raise(std::move(input)
                  .error()
                  .within({Where::kInput, ports[i].name})
                  .within({Where::kFunction, name_}));
      }
      inputs.push_back(*std::move(input));
    }
    const auto results = value_or_raise(without_gil([&] {
      const std::lock_guard turn(turn_);
      return caller_.run(inputs);
    }));
    nb::list values;
    for (const auto& result : results) {
      values.append(value_or_raise(to_python(result, make_owner(result.owner()), name_)));
    }
    return values;
  }

 private:
  static Result<ready::Caller> called(const std::string& name, const function::Settings& settings) {
    PENSTOCK_TRY(auto function, ready::make(name, settings));
    return ready::Caller::make(std::move(function));
  }

  std::string name_;
  ready::Caller caller_;
  std::mutex turn_;
};

std::vector<std::string> ready_functions() {
  std::vector<std::string> names;
  for (const auto& declaration : ready::declarations()) names.emplace_back(declaration.name);
  return names;
}

/// Its sentence; of each setting its name, what it takes, its usual value and its sentence;
/// examples of those that have to be given; inputs and outputs with them; YAML.
SheetParts ready_sheet(const std::string& name) {
  auto sheet = value_or_raise(ready::sheet(name));
  std::vector<Told> settings;
  for (const auto& setting : sheet.declaration->settings) {
    settings.emplace_back(setting.name, ready::expected(setting), setting.usual, setting.says);
  }
  return {std::string(sheet.declaration->says),
          std::move(settings),
          std::move(sheet.given),
          told(sheet.inputs),
          told(sheet.outputs),
          std::move(sheet.yaml)};
}

}  // namespace

void bind_ready(nb::module_& module) {
  nb::class_<Ready>(module, "Ready")
      .def(nb::init<const std::string&, const function::Settings&>(), nb::arg("name"),
           nb::arg("settings"))
      .def("inputs", &Ready::inputs)
      .def("outputs", &Ready::outputs)
      .def("call", &Ready::call);
  module.def("ready_functions", &ready_functions);
  module.def("ready_sheet", &ready_sheet);
}

}  // namespace penstock::python
