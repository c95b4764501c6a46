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
  taken_.reserve(output_->size());
  // Where memory is refused for one, those before it stay taken, and the next call goes on.
  while (taken_.size() < output_->size()) taken_.push_back(output_->take(taken_.size()));
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
  if (!PyUnicode_Check(name.ptr())) return {};  // Arrays compare item by item.
  for (std::size_t i = 0; i < outputs_->names.size(); ++i) {
    if (outputs_->names[i].equal(name)) return i;
  }
  return {};
}

namespace {

/// An int of what counts as one, such as numpy's integers; else invalid.
nb::object whole_number(nb::handle key) {
  if (PyIndex_Check(key.ptr()) == 0) return {};
  auto number = nb::steal(PyNumber_Index(key.ptr()));
  if (!number.is_valid()) PyErr_Clear();  // An array of several.
  return number;
}

}  // namespace

nb::object Frame::item(nb::handle key) {
  if (const auto position = whole_number(key); position.is_valid()) {
    const auto count = static_cast<std::int64_t>(outputs_->infos.size());
    int beyond = 0;
    auto index = PyLong_AsLongLongAndOverflow(position.ptr(), &beyond);
    if (index < 0) index += count;
    if (beyond == 0 && index >= 0 && index < count) return array(static_cast<std::size_t>(index));
    const auto text = concat("this frame has ", counted(count, "output"), ", found index ",
                             text_of(nb::str(position)));
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

nb::list items_of(Frame& frame) {
  nb::list items;
  for (const auto name : frame.names()) items.append(nb::make_tuple(name, frame.item(name)));
  return items;
}

int visit_tag(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<Frame>(self)->tag().ptr());
  return 0;
}

// These texts are those of _core.pyi.
constexpr const char* kFrameText =
    R"(One frame that came out of a pipeline: a mapping of its outputs by name.

Its arrays lie in the pipeline's own memory, without a copy, and stay as they are for as long as
anything holds them. A pipeline that would run short of memory because many frames are held gives
the older ones away and takes new memory for itself; ``take()`` does so at once.)";

// NOLINTNEXTLINE(cppcoreguidelines-avoid-c-arrays): what Python takes.
const PyType_Slot frame_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(visit_tag)},
    {0, nullptr},
};

}  // namespace

void bind_frame(nb::module_& module) {
  nb::class_<Frame>(module, "Frame", nb::is_weak_referenceable(), nb::type_slots(frame_slots),
                    kFrameText)
      .def_prop_ro("number", &Frame::number,
                   "0, 1, 2, ... in the order pushed, which is the order in which frames come out.")
      .def_prop_ro("stream", &Frame::stream, "The stream that it was pushed for.")
      .def_prop_ro(
          "tag", [](const Frame& frame) { return frame.tag(); }, "What was given to ``push()``.")
      .def_prop_ro("ok", &Frame::ok, "Whether it has outputs.")
      .def_prop_ro("outcome", &Frame::outcome,
                   "``\"ok\"``, ``\"error\"``, ``\"dropped\"`` or ``\"cancelled\"``.")
      .def_prop_ro("latency_us", &Frame::latency_us, "From its push to its pop, in microseconds.")
      .def_prop_ro("error", &Frame::error, "Why there are no outputs.")
      .def_prop_ro("owned", &Frame::owned,
                   "Whether the arrays' memory is no longer the pipeline's.")
      .def_prop_ro("outputs", &Frame::arrays,
                   "All outputs in the model's order. Raises the frame's error where it has one.")
      .def(
          "take",
          [](nb::handle self) {
            nb::cast<Frame&>(self).take();
            return nb::borrow(self);
          },
          "Moves the arrays' memory out of the pipeline. Gives the frame itself.")
      .def("__getitem__", &Frame::item, nb::arg("key").none(),
           "An output by its name, or by its position in the model's order.")
      .def("__len__", &Frame::size)
      .def("__iter__", [](Frame& frame) { return nb::iter(frame.names()); })
      .def(
          "__contains__",
          [](const Frame& frame, nb::handle name) { return frame.find(name).has_value(); },
          nb::arg("name").none())
      .def("keys", &Frame::names, "The outputs' names in the model's order.")
      .def("values", &Frame::arrays, "The same as ``outputs``.")
      .def("items", &items_of, "Pairs of name and output in the model's order.")
      .def(
          "get",
          [](Frame& frame, nb::handle name, const nb::object& other) {
            const auto index = frame.find(name);
            return index ? frame.array(*index) : other;
          },
          nb::arg("name").none(), nb::arg("default").none() = nb::none(),
          "An output by its name; ``default`` where there is none of that name.")
      .def("__repr__", &show);
}

}  // namespace penstock::python
