// Declares --tune with its bounds, starts follow::Tuner, and words each swap as a line.
#include "penstock/cli/tuning.h"

#include <cstdio>
#include <utility>

#include "penstock/cli/numbers.h"
#include "penstock/cli/text.h"

namespace penstock::cli {
namespace {

void tell_swap(const follow::Swap& swap) {
  std::string how = concat(number(swap.gain, 2), " times the frames of '", swap.from, "' expected");
  if (swap.back) how = concat("back, as '", swap.from, "' was slower");
  if (!swap.refused.empty()) how = "not run: " + swap.refused;
  print(concat("penstock: tune: '", swap.to, "': ", how, "\n"), stderr);
}

}  // namespace

void add_tune_option(CLI::App* command, double& share) {
  command
      ->add_option("--tune", share,
                   "While it runs, change to other plans of the same stages when CPUs are taken "
                   "away or given back. SHARE of the machine's time may be spent on that (0.02)")
      ->check(number_from(follow::kLeastShare, follow::kMostShare))
      ->type_name("SHARE");
}

Result<std::unique_ptr<follow::Tuner>> tune(
    double share, const plan::Package& package, const std::shared_ptr<pipeline::Pipeline>& pipeline,
    std::function<Status(const plan::Plan&, const std::filesystem::path&)> replace) {
  if (share == 0) return std::unique_ptr<follow::Tuner>();
  return follow::Tuner::start(
      pipeline, package,
      {.replace = std::move(replace), .share = share, .others = {}, .swapped = tell_swap});
}

}  // namespace penstock::cli
