#include "modules.h"

#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "callable.h"
#include "gil.h"
#include "held.h"
#include "penstock/base/version.h"
#include "penstock/function/interpreter.h"
#include "text.h"

namespace penstock::python {
namespace {

Result<std::vector<function::Function>> declared_in(const std::filesystem::path& file) {
  const nb::object load = nb::module_::import_("penstock.modules").attr("load");
  const nb::object loaded = load(text_object(file.string()));
  if (nb::isinstance<nb::str>(loaded)) {
    return make_error(Code::kFailedPrecondition, text_of(loaded));
  }
  PENSTOCK_TRY(auto callables, to_callables(nb::cast<nb::list>(loaded)));
  std::vector<function::Function> functions;
  for (auto& callable : callables) functions.push_back(std::move(callable.function));
  return functions;
}

Result<std::vector<function::Function>> load_module(const std::filesystem::path& file) {
  const WithGil gil;
  release_dropped();
  try {
    return declared_in(file);
  } catch (const std::exception& error) {  // Of Python, or no memory.
    return make_error(Code::kFailedPrecondition, error.what());
  }
}

}  // namespace

void offer_modules() {
  // Programs of another version may have loaded their library of the same name before.
  if (version() != PENSTOCK_PACKAGE_VERSION) {
    const auto text = concat("this package is of Penstock ", PENSTOCK_PACKAGE_VERSION,
                             ", the program that imports it of ", version());
    throw nb::import_error(text.c_str());
  }
  function::offer_module_loader(&load_module);
}

}  // namespace penstock::python
