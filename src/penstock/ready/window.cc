// `window` cuts a stream of samples into windows that overlap; `overlap_add` makes samples of them.
#include <algorithm>

#include "penstock/ready/families.h"
#include "penstock/ready/hann.h"
#include "penstock/ready/kernel.h"
#include "penstock/ready/reshaped.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

std::vector<float> weights_of(const std::string& word, std::size_t size) {
  return word == "hann" ? hann(size) : std::vector<float>(size, 1.0F);
}

struct Window {
  std::size_t size, hop;
  std::vector<std::int64_t> dims;  // Of the windows, behind their number.
  std::vector<float> weights;
  std::vector<float> waiting;  // Samples that no window has been cut behind yet.
  std::size_t skip = 0;        // Samples to come that lie between windows.

  Status run(Inputs in, Outputs out) {
    const auto samples = in[0]->as<float>();
    const auto left_out = std::min(skip, samples.size());
    skip -= left_out;
    waiting.insert(waiting.end(), samples.begin() + static_cast<std::ptrdiff_t>(left_out),
                   samples.end());
    const std::size_t count = waiting.size() < size ? 0 : (waiting.size() - size) / hop + 1;
    dims.front() = static_cast<std::int64_t>(count);
    PENSTOCK_CHECK_OK(shape(*out[0], dims));
    float* to = out[0]->as<float>().data();
    for (std::size_t i = 0; i < count; ++i, to += size) {
      const float* from = waiting.data() + i * hop;
      for (std::size_t s = 0; s < size; ++s) to[s] = from[s] * weights[s];
    }
    const auto done = std::min(count * hop, waiting.size());
    skip += count * hop - done;
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(done));
    return {};
  }
};

/// The windows' dimensions: `most` of them, each of the shape that is set.
Result<std::vector<Dim>> dims_of(const Values& values, std::int64_t most) {
  const auto samples = Type::tensor(DType::kF32, {sized(values.integer("size"))});
  PENSTOCK_TRY(auto dims, reshaped("shape", samples, values.shape("shape")));
  dims.insert(dims.begin(), open("m", most));
  return dims;
}

Result<function::Function> make_window(const Values& values) {
  const auto size = static_cast<std::size_t>(values.integer("size"));
  const auto hop = static_cast<std::size_t>(values.integer("hop"));
  const auto most = values.integer("most");
  const auto lead = static_cast<std::size_t>(values.integer("lead"));
  if (lead > size) {
    return invalid_argument("setting 'lead': expected at most a window's ", size,
                            " samples, found ", lead);
  }
  // Less than a window waits, or a whole one of `lead` at the beginning.
  const auto windows = most / static_cast<std::int64_t>(hop) + 1 + (lead == size ? 1 : 0);
  PENSTOCK_TRY(const auto dims, dims_of(values, windows));
  std::vector<std::int64_t> sizes;
  for (const auto& dim : dims) sizes.push_back(dim.size);
  return made_of("window", {f32("samples", {open("n", most)})}, {f32("windows", dims)},
                 Window{size, hop, std::move(sizes), weights_of(values.word("weights"), size),
                        std::vector<float>(lead)},
                 true);
}

struct OverlapAdd {
  std::size_t hop;
  std::vector<float> weights;  // Divided by what the sum of all windows weighs there.
  std::vector<float> sum;      // Of the windows so far, from the next sample on.

  Status run(Inputs in, Outputs out) {
    const auto windows = in[0]->as<float>();
    const auto count = static_cast<std::size_t>(in[0]->dims()[0]);
    PENSTOCK_CHECK_OK(shape(*out[0], {static_cast<std::int64_t>(count * hop)}));
    const auto to = out[0]->as<float>();
    for (std::size_t i = 0; i < count; ++i) {
      const float* from = windows.data() + i * sum.size();
      for (std::size_t s = 0; s < sum.size(); ++s) sum[s] += from[s] * weights[s];
      std::copy_n(sum.begin(), hop, to.begin() + static_cast<std::ptrdiff_t>(i * hop));
      std::shift_left(sum.begin(), sum.end(), static_cast<std::ptrdiff_t>(hop));
      std::fill(sum.end() - static_cast<std::ptrdiff_t>(hop), sum.end(), 0.0F);
    }
    return {};
  }
};

/// What gives the samples back where each window was weighed before, too.
void divide(std::vector<float>& weights, std::size_t hop) {
  for (std::size_t phase = 0; phase < hop; ++phase) {
    double whole = 0;
    for (std::size_t i = phase; i < weights.size(); i += hop) {
      whole += static_cast<double>(weights[i]) * static_cast<double>(weights[i]);
    }
    for (std::size_t i = phase; i < weights.size() && whole > 0; i += hop) {
      weights[i] = static_cast<float>(weights[i] / whole);
    }
  }
}

Result<function::Function> make_overlap_add(const Values& values) {
  const auto size = static_cast<std::size_t>(values.integer("size"));
  const auto hop = static_cast<std::size_t>(values.integer("hop"));
  if (hop > size) {
    return invalid_argument("setting 'hop': expected at most a window's ", size, " samples, found ",
                            hop);
  }
  const auto windows = values.integer("most");
  auto weights = weights_of(values.word("weights"), size);
  if (values.flag("divide")) divide(weights, hop);
  PENSTOCK_TRY(const auto dims, dims_of(values, windows));
  return made_of("overlap_add", {f32("windows", dims)},
                 {f32("samples", {open("n", windows * values.integer("hop"))})},
                 OverlapAdd{hop, std::move(weights), std::vector<float>(size)}, true);
}

Setting weights_setting(std::string_view says) {
  return word("weights", "none", says, "none|hann");
}

Setting window_shape_setting() {
  return reshape_setting("shape",
                         "Of each window, such as 1,-1 for an input [1, samples]; -1 is what the "
                         "others leave.",
                         "-1");
}

}  // namespace

std::vector<Declaration> window_functions() {
  return {
      {.name = "window",
       .says = "A stream of samples, in pieces of any length, as windows that overlap: for "
               "wake words, tagging and enhancement without states, whose networks run for `each`. "
               "What does not fill a window waits for the next frame.",
       .settings = {shown_as("400", whole("size", "", "Of a window, in samples.", 1e7)),
                    shown_as("160",
                             whole("hop", "",
                                   "From the beginning of one window to that of the next.", 1e7)),
                    shown_as("16000", whole("most", "", "The most samples of a frame.", 1e7)),
                    whole("lead", "0", "Zeros before the first sample.", 1e7, 0),
                    weights_setting("What each window is multiplied by."), window_shape_setting()},
       .make = &make_window},
      {.name = "overlap_add",
       .says = "Windows that overlap, added to a stream of samples again: behind speech "
               "enhancement. Each window completes `hop` samples.",
       .settings = {shown_as("400", whole("size", "", "Of a window, in samples.", 1e7)),
                    shown_as("160",
                             whole("hop", "",
                                   "From the beginning of one window to that of the next.", 1e7)),
                    whole("most", "8", "The most windows of a frame.", 1e6),
                    weights_setting("What each window is multiplied by before, which for "
                                    "`divide` was done when it was cut, too."),
                    flag("divide", "true",
                         "Whether sums are divided by what overlapping windows weigh, so that "
                         "samples come back as they were. The first `size` - `hop` are quieter, as "
                         "fewer windows overlap there: give `window` so much `lead`."),
                    window_shape_setting()},
       .make = &make_overlap_add}};
}

}  // namespace penstock::ready
