// Covers of several backends, as many as there is time for.
#include "penstock/tune/covers.h"
#include "penstock/tune/steps.h"

namespace penstock::tune {
namespace {

constexpr int kCovers = 3;           ///< Mixed covers that are run.
constexpr int kPlansAfterParts = 4;  ///< For which measuring parts leaves time.

}  // namespace

Status try_covers(Context& context, Proposals& proposals) {
  context.say("measuring parts");
  context.parts->measure_at_most(context.options.most_parts);
  const auto deadline = context.budget.at(context.latest_start(kPlansAfterParts));
  PENSTOCK_TRY(const auto covers, find_covers(*context.parts, context.options, kCovers, deadline));
  for (const auto& cover : covers) {
    if (context.out_of_time()) break;
    PENSTOCK_CHECK_OK(proposals.enter_whole(cover, context.fits_on_each(cover)));
  }
  return {};
}

}  // namespace penstock::tune
