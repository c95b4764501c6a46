// penstock._core: the library as the Python package's own module uses it.
#include <vector>

#include <nanobind/nanobind.h>

#include "app.h"
#include "build.h"
#include "frame.h"
#include "gil.h"
#include "make.h"
#include "modules.h"
#include "penstock/base/option_name.h"
#include "penstock/session/session.h"
#include "pipeline.h"
#include "ready.h"
#include "serving.h"
#include "sound.h"
#include "tuning.h"
#include "watching.h"

namespace {

/// nanobind lists all objects of ours in one table, and ends the process where memory to grow it is
/// refused. So it grows while the module is imported, for more than a program holds at once: the
/// table never shrinks.
void make_room_for_objects() {
  constexpr std::size_t kObjects = 4096;
  std::vector<nanobind::object> held;
  held.reserve(kObjects);
  while (held.size() < kObjects) {
    held.push_back(nanobind::inst_alloc(nanobind::type<penstock::python::Frame>()));
  }
}

}  // namespace

NB_MODULE(_core, module) {
  namespace python = penstock::python;
  namespace nb = nanobind;

  penstock::set_language(penstock::Language::kPython);
  // A pipeline in a global variable is there at the end by right; its threads are not, see below.
  nb::set_leak_warnings(false);
  python::watch_forks();
  python::make_lists();
  python::offer_modules();
  module.attr("version") = nb::str(penstock::version().data(), penstock::version().size());
  python::bind_frame(module);
  python::bind_pipeline(module);
  python::bind_make(module);
  python::bind_app(module);
  python::bind_build(module);
  python::bind_serving(module);
  python::bind_watching(module);
  python::bind_tuning(module);
  python::bind_sound(module);
  python::bind_ready(module);
  make_room_for_objects();
  module.def("check_memory_for_thread", &python::check_memory_for_thread);
  // Called at exit, while the interpreter still stands.
  module.def("shut_down_all", [] {
    python::Pipeline::shut_down_all();
    python::join_aside(python::kPatience);
  });
}
