// libFuzzer target over plan.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "penstock/plan/plan_json.h"

/// Any text is a plan or an error; a plan's own text gives the same plan and the same text again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plan = penstock::plan::from_json({reinterpret_cast<const char*>(data), size});
  if (!plan) return 0;
  const auto text = penstock::plan::to_json(*plan);
  const auto again = penstock::plan::from_json(text);
  if (!again || *again != *plan || penstock::plan::to_json(*again) != text) std::abort();
  return 0;
}
