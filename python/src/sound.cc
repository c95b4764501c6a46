#include "sound.h"

#include <string>
#include <utility>

#include "errors.h"
#include "gil.h"
#include "penstock/frames/sound.h"
#include "tensors.h"
#include "text.h"

namespace penstock::python {
namespace {

frames::Sound open_sound(nb::handle path, std::uint64_t samples, std::uint64_t hop) {
  const auto file = text_of(path);
  const std::int64_t sizes[] = {static_cast<std::int64_t>(samples)};
  return value_or_raise(without_gil(
      [&] { return frames::Sound::open(file, Type::tensor(DType::kF32, sizes), hop); }));
}

nb::object block_of(const frames::Sound& sound, std::uint64_t i) {
  const Tensor block = value_or_raise(without_gil([&] { return sound.block(i); }));
  return value_or_raise(to_python(block, make_owner(block.owner()), "block"));
}

}  // namespace

void bind_sound(nb::module_& module) {
  nb::class_<frames::Sound>(module, "Sound")
      .def_prop_ro("rate", &frames::Sound::rate)
      .def("__len__", &frames::Sound::count)
      .def("block", &block_of, nb::arg("index"));
  module.def("open_sound", &open_sound, nb::arg("path"), nb::arg("samples"), nb::arg("hop"));
}

}  // namespace penstock::python
