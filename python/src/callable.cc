#include "callable.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gil.h"
#include "held.h"
#include "penstock/app/app.h"
#include "penstock/base/words.h"
#include "tensors.h"
#include "text.h"

namespace penstock::python {
namespace {

using function::Inputs;
using function::Outputs;
using Ports = std::vector<backend::Port>;

constexpr std::size_t kLargeCopy = std::size_t{1} << 18;  // Bytes; beyond, others run meanwhile.

std::string kind_of(nb::handle value) {
  return text_of(nb::handle(value.type()).attr("__name__"));
}

/// The exception in one line, then its traceback.
Error to_error(nb::python_error& error) {
  const nb::object traceback = nb::module_::import_("traceback");
  const nb::object where =
      error.traceback().is_valid() ? nb::borrow(error.traceback()) : nb::none();
  const nb::object empty = nb::str("");
  const auto text = [&](const nb::object& lines) { return text_of(empty.attr("join")(lines)); };
  const auto trimmed = [](std::string lines) {
    while (!lines.empty() && lines.back() == '\n') lines.pop_back();
    return lines;
  };
  const auto what = text(traceback.attr("format_exception_only")(error.type(), error.value()));
  const auto all = text(traceback.attr("format_exception")(error.type(), error.value(), where));
  const auto code = error.matches(PyExc_MemoryError) ? Code::kResourceExhausted : Code::kUnknown;
  return make_error(code, trimmed(what), "\n", trimmed(all));
}

/// Of a function that a module declares: in one line, with the module's own.
Error to_error(nb::python_error& error, const std::string& module) {
  if (module.empty()) return to_error(error);
  const auto code = error.matches(PyExc_MemoryError) ? Code::kResourceExhausted : Code::kUnknown;
  const nb::object told = nb::module_::import_("penstock.modules").attr("told");
  return make_error(code, text_of(told(error.value(), text_object(module))));
}

/// The value's memory, whatever its strides.
Result<Tensor> array_of(nb::handle value, const plan::TensorInfo& port) {
  auto tensor = from_python(value, port);
  if (!tensor && !has_mask(value) && nb::hasattr(value, "flags") && nb::hasattr(value, "strides") &&
      !nb::cast<bool>(value.attr("flags").attr("c_contiguous"))) {
    const nb::object numpy = nb::module_::import_("numpy");
    tensor = from_python(numpy.attr("ascontiguousarray")(value), port);
  }
  if (tensor) return tensor;
  return std::move(tensor).error().within({Where::kOutput, port.name});
}

void copy(const Tensor& from, void* to) {
  if (from.bytes() == 0) return;
  if (from.bytes() < kLargeCopy) {
    std::memcpy(to, from.data(), from.bytes());
  } else {
    without_gil([&] { std::memcpy(to, from.data(), from.bytes()); });
  }
}

Status set_dims(Tensor& slot, const std::vector<std::int64_t>& dims, const backend::Port& port) {
  if (slot.set_dims(dims)) return {};
  return make_error(Code::kOutOfRange, "expected ", port.type, ", found shape [",
                    join(dims, ",", [](std::int64_t dim) { return std::to_string(dim); }),
                    "], which is over its bound")
      .within({Where::kOutput, port.name});
}

/// A list of items, each an array without the first dimension.
Status store_items(const nb::list& items, const backend::Port& port, Tensor& slot) {
  const auto& dims = port.type.dims;
  if (dims.empty() || dims.front().fixed()) {
    return invalid_argument("expected an array of ", port.type,
                            ", found a list; a list holds items where the first dimension is open")
        .within({Where::kOutput, port.name});
  }
  const auto count = static_cast<std::int64_t>(nb::len(items));
  if (count > dims.front().bound) {
    return make_error(Code::kOutOfRange, "expected at most ", counted(dims.front().bound, "item"),
                      ", found ", count)
        .within({Where::kOutput, port.name});
  }
  plan::TensorInfo item{port.name, port.type};
  item.type.dims.erase(item.type.dims.begin());
  std::vector<Tensor> arrays;
  for (const nb::handle value : items) {
    PENSTOCK_TRY(auto array, array_of(value, item));
    if (!arrays.empty() && array.dims() != arrays.front().dims()) {
      return invalid_argument("expected items of one shape, found ", arrays.front().type(), " and ",
                              array.type())
          .within({Where::kOutput, port.name});
    }
    arrays.push_back(std::move(array));
  }
  std::vector<std::int64_t> shape{count};
  for (std::size_t i = 0; i < item.type.dims.size(); ++i) {
    const auto& dim = item.type.dims[i];
    shape.push_back(!arrays.empty() ? arrays.front().dims()[i]
                                    : std::max<std::int64_t>(dim.size, 0));
  }
  PENSTOCK_CHECK_OK(set_dims(slot, shape, port));
  auto* to = static_cast<std::byte*>(slot.data());
  for (const auto& array : arrays) {
    copy(array, to);
    to += array.bytes();
  }
  return {};
}

Status store(nb::handle value, const backend::Port& port, Tensor& slot) {
  if (PyList_Check(value.ptr())) return store_items(nb::borrow<nb::list>(value), port, slot);
  PENSTOCK_TRY(const auto array, array_of(value, {port.name, port.type}));
  PENSTOCK_CHECK_OK(set_dims(slot, array.dims(), port));
  copy(array, slot.data());
  return {};
}

class PythonCall {
 public:
  /// `module`: the path of that which declares it, if one does.
  PythonCall(PyObject* call, PyObject* drop, std::string module, const function::Function& declared)
      : call_(call),
        drop_(drop),
        module_(std::move(module)),
        name_(declared.name),
        inputs_(declared.inputs),
        outputs_(declared.outputs) {}

  Status run(Inputs inputs, Outputs outputs) const {
    const WithGil gil;
    release_dropped();
    try {
      auto status = call(inputs, outputs);
      if (status || is_drop(status.error())) return status;
      return std::move(status).error().within({Where::kFunction, name_});
    } catch (nb::python_error& error) {
      return to_error(error, module_).within({Where::kFunction, name_});
    }
  }

 private:
  static bool is_drop(const Error& error) { return error.code == Code::kAborted; }

  Status call(Inputs inputs, Outputs outputs) const {
    PENSTOCK_TRY(const nb::object arguments, arguments_of(inputs));
    Status called = answer(arguments, outputs);
    release_dropped();  // The arrays that were copied, which may be the inputs.
    Status let_go = check_let_go(arguments);
    if (let_go) return called;
    if (called || is_drop(called.error())) return let_go;
    return std::move(let_go).error().adding("; the call failed: " + called.error().message());
  }

  /// When it returns, neither the result nor an exception holds the arguments any more.
  Status answer(const nb::object& arguments, Outputs outputs) const {
    try {
      PyObject* returned = or_sleep([&] { return PyObject_Call(call_, arguments.ptr(), nullptr); });
      const nb::object result = nb::steal(returned);
      if (!result.is_valid()) throw nb::python_error();
      return store_all(result, outputs);
    } catch (nb::python_error& error) {
      return to_error(error, module_);
    }
  }

  Result<nb::object> arguments_of(Inputs inputs) const {
    nb::object arguments = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
    if (!arguments.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = *inputs[i];
      PENSTOCK_TRY(nb::object array, to_python(input, make_owner(input.owner()), inputs_[i].name));
      if (input.kind() == Tensor::Kind::kDense) array.attr("setflags")(false);
      PyTuple_SetItem(arguments.ptr(), static_cast<Py_ssize_t>(i), array.release().ptr());
    }
    return arguments;
  }

  Status store_all(nb::handle result, Outputs outputs) const {
    if (PyObject_IsInstance(result.ptr(), drop_) == 1) {
      return function::drop(text_of(nb::str(result.attr("reason"))));
    }
    if (outputs_.empty()) return {};
    if (result.is_none()) return function::drop("function '" + name_ + "' returned None");
    if (PyDict_Check(result.ptr())) return store_named(nb::borrow<nb::dict>(result), outputs);
    const bool listed = PyTuple_Check(result.ptr()) != 0 ||
                        (outputs_.size() > 1 && PyList_Check(result.ptr()) != 0);
    if (!listed && outputs_.size() == 1) return python::store(result, outputs_[0], *outputs[0]);
    if (!listed || nb::len(result) != outputs_.size()) {
      return invalid_argument("expected ", counted(outputs_.size(), "output"), " (",
                              quoted_names(outputs_), "), found ",
                              listed ? std::to_string(nb::len(result)) : "one " + kind_of(result));
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      PENSTOCK_CHECK_OK(python::store(nb::object(result[i]), outputs_[i], *outputs[i]));
    }
    return {};
  }

  Status store_named(const nb::dict& result, Outputs outputs) const {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const nb::str name(outputs_[i].name.c_str());
      if (!result.contains(name)) {
        return invalid_argument("output '", outputs_[i].name, "' is missing; the outputs are ",
                                quoted_names(outputs_));
      }
      PENSTOCK_CHECK_OK(python::store(nb::object(result[name]), outputs_[i], *outputs[i]));
    }
    if (nb::len(result) == outputs_.size()) return {};
    return invalid_argument("expected the outputs ", quoted_names(outputs_), ", found ",
                            text_of(nb::str(nb::object(result.attr("keys")()))));
  }

  /// The next frame takes the inputs' memory: an array that was kept would change under its holder.
  Status check_let_go(const nb::object& arguments) const {
    const auto kept = [&] {
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        if (Py_REFCNT(PyTuple_GetItem(arguments.ptr(), static_cast<Py_ssize_t>(i))) > 1) return i;
      }
      return inputs_.size();
    };
    // A cycle of local names holds them too; it is an old one where much was made since.
    for (const int generation : {0, 2}) {
      if (kept() == inputs_.size()) return {};
      nb::module_::import_("gc").attr("collect")(generation);
    }
    const auto i = kept();
    if (i == inputs_.size()) return {};
    return make_error(Code::kFailedPrecondition, "kept its input '", inputs_[i].name,
                      "' beyond the call, while the next frames take its memory; keep ",
                      inputs_[i].name, ".copy()");
  }

  // Both are held by who holds this.
  PyObject* call_;
  PyObject* drop_;
  std::string module_;
  std::string name_;
  Ports inputs_, outputs_;
};

Result<Ports> to_ports(const nb::dict& declaration, const char* side) {
  Ports ports;
  using Types = std::vector<std::pair<std::string, std::string>>;
  for (const auto& [name, text] : nb::cast<Types>(declaration[side])) {
    auto type = app::parse_type(text);
    if (!type) return std::move(type).error().within(concat(side, ": '", name, "'"));
    ports.push_back({name, *std::move(type)});
  }
  return ports;
}

Result<Callable> to_callable(const nb::dict& declaration) {
  Callable callable;
  auto& function = callable.function;
  function.name = text_of(declaration["name"]);
  const auto within = [&](Error error) {
    return std::move(error).within({Where::kFunction, function.name});
  };
  auto inputs = to_ports(declaration, "inputs");
  if (!inputs) return within(std::move(inputs).error());
  auto outputs = to_ports(declaration, "outputs");
  if (!outputs) return within(std::move(outputs).error());
  function.inputs = *std::move(inputs);
  function.outputs = *std::move(outputs);
  function.stateful = nb::cast<bool>(declaration["stateful"]);

  auto held = std::make_unique<Held>();
  held->object = declaration["call"];
  callable.object = held->object.ptr();
  callable.holder = share(std::move(held));
  // The class lives as long as the module does, which nothing unloads.
  PyObject* const drop = nb::object(declaration["drop"]).ptr();
  auto module = declaration.contains("module") ? text_of(declaration["module"]) : std::string();
  const auto call =
      std::make_shared<PythonCall>(callable.object, drop, std::move(module), function);
  function.copies_outputs = true;
  function.create = [call, holder = callable.holder](
                        const function::Settings& settings) -> Result<function::Call> {
    PENSTOCK_CHECK_OK(function::refuse_settings(settings));
    return function::Call([call, holder](Inputs in, Outputs out) { return call->run(in, out); });
  };
  return callable;
}

}  // namespace

Result<std::vector<Callable>> to_callables(nb::list declarations) {
  std::vector<Callable> callables;
  for (const nb::handle declaration : declarations) {
    PENSTOCK_TRY(auto callable, to_callable(nb::cast<nb::dict>(declaration)));
    callables.push_back(std::move(callable));
  }
  return callables;
}

}  // namespace penstock::python
