// What is called a hang may only be slow: a larger budget gives it longer, as far as it counts.
#include "penstock/tune/told.h"

#include "penstock/base/option_name.h"

namespace penstock::tune {

std::string told(const cost::Failure& failure, double silence_seconds) {
  auto text = concat(cost::to_string(failure.kind), ": ", failure.message);
  if (failure.kind != cost::FailureKind::kHang || silence_seconds >= kMostSilence) return text;
  return concat(text, "; a larger budget (", in_words_of_caller("--budget", "budget"),
                ") gives it longer, up to ", kMostSilence, " s");
}

}  // namespace penstock::tune
