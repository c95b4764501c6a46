#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "dicts.h"
#include "pipeline.h"
#include "text.h"

namespace penstock::python {
namespace {

int visit_pipeline(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Pipeline>(self)->traverse(visit, arg) : 0;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-c-arrays): what Python takes.
const PyType_Slot pipeline_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(visit_pipeline)},
    {0, nullptr},
};

}  // namespace

void bind_pipeline(nb::module_& module) {
  using OptionalSeconds = std::optional<double>;
  nb::class_<Pipeline>(module, "Pipeline", nb::is_weak_referenceable(),
                       nb::type_slots(pipeline_slots))
      .def(
          "push",
          [](Pipeline& p, nb::handle feed, OptionalSeconds timeout, nb::handle tag,
             OptionalSeconds told, std::uint64_t stream, OptionalSeconds deadline, bool high,
             nb::object done, bool in_order) {
            return p.push(feed, timeout, tag, told,
                          {stream, deadline, high, std::move(done), in_order});
          },
          nb::arg("feed").none(), nb::arg("timeout").none() = 60.0,
          nb::arg("tag").none() = nb::none(), nb::arg("told").none() = nb::none(),
          nb::arg("stream") = 0, nb::arg("deadline").none() = nb::none(), nb::arg("high") = false,
          nb::arg("done").none() = nb::none(), nb::arg("in_order") = true)
      .def(
          "try_push",
          [](Pipeline& p, nb::handle feed, nb::handle tag, std::uint64_t stream,
             OptionalSeconds deadline, bool high, nb::object done, bool in_order) {
            return p.try_push(feed, tag, {stream, deadline, high, std::move(done), in_order});
          },
          nb::arg("feed").none(), nb::arg("tag").none() = nb::none(), nb::arg("stream") = 0,
          nb::arg("deadline").none() = nb::none(), nb::arg("high") = false,
          nb::arg("done").none() = nb::none(), nb::arg("in_order") = true)
      .def("pop", &Pipeline::pop, nb::arg("timeout").none() = 60.0)
      .def("try_pop", &Pipeline::try_pop)
      .def("run", &Pipeline::run, nb::arg("feed").none(), nb::arg("stream") = 0)
      .def("run_repeatedly", &Pipeline::run_repeatedly, nb::arg("feed"), nb::arg("count"))
      .def("set_parameters", &Pipeline::set_parameters, nb::arg("values"), nb::arg("stage") = "")
      .def("reset_states", &Pipeline::reset_states)
      .def("reset_stream", &Pipeline::reset_stream, nb::arg("stream"))
      .def("end_stream", &Pipeline::end_stream, nb::arg("stream"))
      .def("save_stream", &Pipeline::save_stream, nb::arg("stream"))
      .def("restore_stream", &Pipeline::restore_stream, nb::arg("stream"), nb::arg("states"))
      .def(
          "replace", [](Pipeline& p, nb::handle path) { return p.replace(text_of(path)); },
          nb::arg("path"))
      .def("close", &Pipeline::close)
      .def("drain", &Pipeline::drain, nb::arg("timeout").none() = nb::none())
      .def("cancel", &Pipeline::cancel)
      .def("cancel_frame", &Pipeline::cancel_frame, nb::arg("number"))
      .def("shut_down", nb::overload_cast<OptionalSeconds>(&Pipeline::shut_down),
           nb::arg("timeout").none() = 5.0)
      .def("give_up", nb::overload_cast<>(&Pipeline::give_up))
      .def("give_up_in_flight", &Pipeline::give_up_in_flight)
      .def("hurry_in_flight", &Pipeline::hurry_in_flight)
      .def("stats", &Pipeline::stats)
      .def(
          "write_trace",
          [](const Pipeline& p, nb::handle file) { return p.write_trace(text_of(file)); },
          nb::arg("file"))
      .def(
          "save", [](const Pipeline& p, nb::handle target) { p.save(text_of(target)); },
          nb::arg("target"))
      .def("inputs", [](const Pipeline& p) { return infos_list(p.plan().inputs); })
      .def("outputs", [](const Pipeline& p) { return infos_list(p.plan().outputs); })
      .def("plan_json", [](const Pipeline& p) { return text_object(p.plan_json()); })
      .def_prop_ro("alive", &Pipeline::alive)
      .def_prop_ro("ended", &Pipeline::ended)
      .def("check_process", &Pipeline::check_process)
      .def_prop_ro("calls_back_here", &Pipeline::calls_back_here)
      .def_prop_ro("in_flight", &Pipeline::in_flight)
      .def_prop_ro("in_flight_limit", &Pipeline::in_flight_limit)
      .def_prop_ro("memory_bytes", &Pipeline::memory_bytes);
}

}  // namespace penstock::python
