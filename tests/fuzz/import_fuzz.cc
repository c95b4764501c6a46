// libFuzzer target over the importer.
#include "tests/fuzz/import_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  penstock::fuzz::import_once({reinterpret_cast<const char*>(data), size});
  return 0;
}
