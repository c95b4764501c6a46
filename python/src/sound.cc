#include "sound.h"

#include <string>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "penstock/tensor/wav.h"
#include "text.h"

namespace penstock::python {
namespace {

Result<std::vector<float>> read_all(const std::string& file, int& channels, std::uint32_t& rate) {
  PENSTOCK_TRY(const auto wav, WavFile::open(file));
  channels = wav.channels();
  rate = wav.rate();
  return wav.read(0, wav.length());
}

nb::tuple read_wav(nb::handle path) {
  int channels = 0;
  std::uint32_t rate = 0;
  const auto file = text_of(path);
  const auto samples = value_or_raise(without_gil([&] { return read_all(file, channels, rate); }));
  return nb::make_tuple(nb::bytes(samples.data(), samples.size() * sizeof(float)), channels, rate);
}

}  // namespace

void bind_sound(nb::module_& module) {
  module.def("read_wav", &read_wav, nb::arg("path"));
}

}  // namespace penstock::python
