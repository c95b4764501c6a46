#include "frame.h"

#include <algorithm>
#include <utility>

#include <nanobind/stl/string.h>

#include "errors.h"
#include "gil.h"
#include "held.h"
#include "penstock/base/words.h"
#include "tensors.h"
#include "text.h"

namespace penstock::python {

Lease::Lease(pipeline::Output output, std::uint64_t generation)
    : output_(std::move(output)), generation_(generation) {}

Lease::~Lease() {
  // In a forked child the pipeline's locks may be held by threads that are not there.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory the child ends anyway
  if (generation_ != fork_generation()) new std::optional(std::move(output_));
}

void Lease::detach() {
  if (!output_ || generation_ != fork_generation()) return;
  for (std::size_t i = 0; i < output_->size(); ++i) taken_.push_back(output_->take(i));
  output_.reset();
}

Frame::Frame(pipeline::Output output, std::shared_ptr<OutputTypes> outputs, nb::object tag,
             std::uint64_t generation)
    : outputs_(std::move(outputs)),
      tag_(std::move(tag)),
      number_(output.number()),
      stream_(output.stream()),
      outcome_(output.outcome()),
      latency_us_(std::chrono::duration<double, std::micro>(output.latency()).count()) {
  if (ok()) {
    lease_ = std::make_shared<Lease>(std::move(output), generation);
    arrays_.resize(size());
  } else {
    error_ = output.error();
  }
}

const char* Frame::outcome() const {
  switch (outcome_) {
    case pipeline::Outcome::kOk:
      return "ok";
    case pipeline::Outcome::kError:
      return "error";
    case pipeline::Outcome::kDropped:
      return "dropped";
    case pipeline::Outcome::kCancelled:
      return "cancelled";
  }
  return "error";
}

nb::object Frame::error() const {
  return ok() ? nb::object(nb::none()) : to_exception(error_, number_);
}

nb::object Frame::array(std::size_t index) {
  if (!ok()) {
    const nb::object exception = error();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    throw nb::python_error();
  }
  nb::object& array = arrays_[index];
  if (array.is_valid()) return array;
  const std::string& name = outputs_->infos[index].name;
  if (outputs_->shared[index]) {
    auto copy = std::make_shared<const Tensor>((*lease_)[index].clone());
    ++outputs_->copies;
    array = value_or_raise(to_python(*copy, make_owner(copy), name));
  } else {
    array = value_or_raise(to_python((*lease_)[index], make_owner(lease_), name));
  }
  return array;
}

nb::list Frame::arrays() {
  nb::list list;
  for (std::size_t i = 0; i < outputs_->infos.size(); ++i) list.append(array(i));
  return list;
}

std::optional<std::size_t> Frame::find(nb::handle name) const {
  for (std::size_t i = 0; i < outputs_->names.size(); ++i) {
    if (outputs_->names[i].equal(name)) return i;
  }
  return {};
}

nb::object Frame::item(nb::handle key) {
  if (nb::isinstance<nb::int_>(key)) {
    const auto count = static_cast<std::int64_t>(outputs_->infos.size());
    auto index = nb::cast<std::int64_t>(key);
    if (index < 0) index += count;
    if (index >= 0 && index < count) return array(static_cast<std::size_t>(index));
    const auto text = concat("this frame has ", counted(count, "output"), ", found index ", index);
    throw nb::index_error(text.c_str());
  }
  if (const auto index = find(key)) return array(*index);
  const auto shown = text_of(nb::repr(key));
  const auto text =
      concat("no output ", shown, "; the outputs are ", quoted_names(outputs_->infos));
  throw nb::key_error(text.c_str());
}

nb::list Frame::names() const {
  nb::list list;
  for (const auto& name : outputs_->names) list.append(name);
  return list;
}

void Frame::take() {
  if (lease_) lease_->detach();
}

namespace {

std::string show(Frame& frame) {
  std::string text = concat("<penstock.Frame ", frame.number(), " ", frame.outcome());
  if (!frame.ok()) return text + ": " + text_of(nb::str(nb::object(frame.error()))) + ">";
  for (const auto name : frame.names()) {
    const nb::object value = frame.item(name);
    text += " " + text_of(nb::repr(name));
    if (!nb::hasattr(value, "dtype")) continue;
    text += concat(" ", text_of(value.attr("dtype")),
                   text_of(nb::str(nb::object(value.attr("shape")))));
  }
  return text + ">";
}

int visit_tag(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<Frame>(self)->tag().ptr());
  return 0;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-c-arrays): what Python takes.
const PyType_Slot frame_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(visit_tag)},
    {0, nullptr},
};

}  // namespace

void bind_frame(nb::module_& module) {
  nb::class_<Frame>(module, "Frame", nb::is_weak_referenceable(), nb::type_slots(frame_slots))
      .def_prop_ro("number", &Frame::number)
      .def_prop_ro("stream", &Frame::stream)
      .def_prop_ro("tag", [](const Frame& frame) { return frame.tag(); })
      .def_prop_ro("ok", &Frame::ok)
      .def_prop_ro("outcome", &Frame::outcome)
      .def_prop_ro("latency_us", &Frame::latency_us)
      .def_prop_ro("error", &Frame::error)
      .def_prop_ro("owned", &Frame::owned)
      .def_prop_ro("outputs", &Frame::arrays)
      .def("take",
           [](nb::handle self) {
             nb::cast<Frame&>(self).take();
             return nb::borrow(self);
           })
      .def("__getitem__", &Frame::item)
      .def("__len__", &Frame::size)
      .def("__iter__", [](Frame& frame) { return nb::iter(frame.names()); })
      .def("__contains__",
           [](const Frame& frame, nb::handle name) { return frame.find(name).has_value(); })
      .def("keys", &Frame::names)
      .def("values", &Frame::arrays)
      .def("items",
           [](Frame& frame) {
             nb::list items;
             for (const auto name : frame.names()) {
               items.append(nb::make_tuple(name, frame.item(name)));
             }
             return items;
           })
      .def(
          "get",
          [](Frame& frame, nb::handle name, const nb::object& other) {
            const auto index = frame.find(name);
            return index ? frame.array(*index) : other;
          },
          nb::arg("name"), nb::arg("default") = nb::none())
      .def("__repr__", &show);
}

}  // namespace penstock::python
