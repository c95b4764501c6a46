#include "feed.h"

#include <algorithm>
#include <utility>

#include <nanobind/stl/string.h>

#include "errors.h"
#include "penstock/base/words.h"
#include "tensors.h"
#include "text.h"

namespace penstock::python {

Feed::Feed(const plan::Package& package)
    : bound_(value_or_raise(plan::read_bound_values(package.plan, package.folder))) {
  for (const auto& input : package.plan.inputs) names_.push_back(text_object(input.name));
}

std::string Feed::unknown_in(nb::handle feed) const {
  for (const auto key : nb::borrow<nb::dict>(feed).keys()) {
    const auto is_key = [&](const nb::object& name) { return name.equal(key); };
    if (std::ranges::any_of(names_, is_key)) continue;
    if (!PyUnicode_Check(key.ptr()) || !bound_.contains(text_of(key)))
      return text_of(nb::repr(key));
  }
  return "";
}

void Feed::check_bound_in(nb::handle feed) const {
  for (const auto& [name, value] : bound_) {
    PyObject* sent = PyDict_GetItemWithError(feed.ptr(), text_object(name).ptr());
    if (sent == nullptr) continue;
    auto tensor = from_python(sent, {name, value.type()});
    if (!tensor) raise(std::move(tensor).error().within({Where::kInput, name}));
    check(plan::check_bound(bound_, name, *tensor));
  }
}

std::vector<Tensor> Feed::tensors_of(nb::handle feed,
                                     const std::vector<plan::TensorInfo>& inputs) const {
  std::vector<Tensor> tensors;
  tensors.reserve(inputs.size());
  const auto add = [&](std::size_t i, nb::handle value) {
    auto tensor = from_python(value, inputs[i]);
    if (!tensor) raise(std::move(tensor).error().within({Where::kInput, inputs[i].name}));
    tensors.push_back(*std::move(tensor));
  };
  if (PyDict_Check(feed.ptr())) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      PyObject* value = PyDict_GetItemWithError(feed.ptr(), names_[i].ptr());
      if (value == nullptr) {
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
        const auto other = unknown_in(feed);
        raise(invalid_argument("input '", inputs[i].name, "' is missing",
                               other.empty() ? "" : " and " + other + " is none",
                               "; the inputs are ", quoted_names(inputs)));
      }
      add(i, value);
    }
    if (static_cast<std::size_t>(PyDict_Size(feed.ptr())) == inputs.size()) return tensors;
    if (const auto other = unknown_in(feed); !other.empty()) {
      raise(invalid_argument("no input ", other, "; the inputs are ", quoted_names(inputs)));
    }
    check_bound_in(feed);
    return tensors;
  }
  if (PyTuple_Check(feed.ptr()) || PyList_Check(feed.ptr())) {
    const auto count = static_cast<std::size_t>(nb::len(feed));
    if (count != inputs.size()) {
      raise(invalid_argument("expected ", counted(inputs.size(), "input"), " (",
                             quoted_names(inputs), "), found ", count));
    }
    for (std::size_t i = 0; i < count; ++i) add(i, feed[i]);
    return tensors;
  }
  if (inputs.size() != 1) {
    raise(invalid_argument("expected a dict of the inputs ", quoted_names(inputs), ", found ",
                           text_of(feed.type().attr("__name__"))));
  }
  add(0, feed);
  return tensors;
}

}  // namespace penstock::python
