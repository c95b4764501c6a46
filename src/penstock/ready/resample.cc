// `resample`: samples at another rate, by a low-pass filter of which each sample wants one phase.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "penstock/ready/families.h"
#include "penstock/ready/kernel.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

constexpr int kZeros = 10;     // Of the sinc on each side, at the lower of both rates.
constexpr double kBeta = 5.0;  // Of Kaiser's window.
constexpr std::size_t kLanes = 8;

/// The modified Bessel function of the first kind and order 0, by its power series.
double bessel(double x) {
  double term = 1, sum = 1;
  for (int k = 1; term > sum * 1e-17; ++k) {
    term *= (x / 2 / k) * (x / 2 / k);
    sum += term;
  }
  return sum;
}

/// A windowed sinc of sum `up`, cut off at the lower of both rates (Oppenheim and Schafer,
/// "Discrete-Time Signal Processing", chapter 7).
std::vector<double> low_pass(std::int64_t up, std::int64_t down) {
  const auto most = std::max(up, down);
  const auto half = kZeros * most;
  std::vector<double> taps(static_cast<std::size_t>(2 * half + 1));
  for (std::int64_t i = -half; i <= half; ++i) {
    const double at = std::numbers::pi * static_cast<double>(i) / static_cast<double>(most);
    const double side = static_cast<double>(i) / static_cast<double>(half);
    taps[static_cast<std::size_t>(i + half)] =
        (i == 0 ? 1 : std::sin(at) / at) * bessel(kBeta * std::sqrt(1 - side * side));
  }
  const double sum = std::accumulate(taps.begin(), taps.end(), 0.0);
  for (auto& tap : taps) tap *= static_cast<double>(up) / sum;
  return taps;
}

/// Several sums at a time, which the compiler may not make of one by itself.
float dot(const float* __restrict a, const float* __restrict b, std::size_t count) {
  float sums[kLanes] = {};
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Sample m of the result is the sum over k of x[k] * taps[m * down - k * up + half].
struct Resample {
  std::int64_t up, down, half;
  std::size_t length;         // Of a phase, a multiple of kLanes.
  std::vector<float> phases;  // Each backwards, as it meets the samples.
  bool stream;
  std::vector<float> samples = {};              // From `first` on; zeros before 0.
  std::int64_t first = 0, count = 0, next = 0;  // Of the samples; all of them; of the result.

  Resample(std::int64_t up_by, std::int64_t down_by, bool is_stream)
      : up(up_by), down(down_by), half(kZeros * std::max(up_by, down_by)), stream(is_stream) {
    const auto taps = low_pass(up, down);
    const auto most =
        (taps.size() + static_cast<std::size_t>(up) - 1) / static_cast<std::size_t>(up);
    length = (most + kLanes - 1) / kLanes * kLanes;
    phases.resize(length * static_cast<std::size_t>(up));
    for (std::size_t i = 0; i < taps.size(); ++i) {
      const auto phase = i % static_cast<std::size_t>(up), step = i / static_cast<std::size_t>(up);
      phases[phase * length + length - 1 - step] = static_cast<float>(taps[i]);
    }
    begin();
  }

  void begin() {
    samples.assign(length, 0.0F);
    first = -static_cast<std::int64_t>(length);
    count = next = 0;
  }

  Status run(Inputs in, Outputs out) {
    if (!stream) begin();
    const auto given = in[0]->as<float>();
    samples.insert(samples.end(), given.begin(), given.end());
    count += static_cast<std::int64_t>(given.size());
    // Of a stream, those for which all samples are there; else all, as if zeros followed.
    auto end = count * up > half ? (count * up - half + down - 1) / down : 0;
    if (!stream) {
      end = (count * up + down - 1) / down;
      samples.resize(samples.size() + length, 0.0F);
    }
    PENSTOCK_CHECK_OK(shape(*out[0], {std::max<std::int64_t>(0, end - next)}));
    for (auto& value : out[0]->as<float>()) value = at(next++);
    forget();
    return {};
  }

  [[nodiscard]] float at(std::int64_t m) const {
    const auto last = (m * down + half) / up, phase = (m * down + half) % up;
    const auto begin = last + 1 - static_cast<std::int64_t>(length) - first;
    return dot(samples.data() + begin, phases.data() + static_cast<std::size_t>(phase) * length,
               length);
  }

  /// The samples that no later sum reads.
  void forget() {
    const auto wanted = (next * down + half) / up + 1 - static_cast<std::int64_t>(length);
    const auto gone =
        std::clamp<std::int64_t>(wanted - first, 0, static_cast<std::int64_t>(samples.size()));
    samples.erase(samples.begin(), samples.begin() + gone);
    first += gone;
  }
};

Result<function::Function> make_resample(const Values& values) {
  const auto divisor = std::gcd(values.integer("rate"), values.integer("to"));
  const auto up = values.integer("to") / divisor, down = values.integer("rate") / divisor;
  constexpr std::int64_t kMost = 10'000;
  if (std::max(up, down) > kMost) {
    return invalid_argument("settings 'rate' and 'to': expected a ratio of whole numbers up to ",
                            kMost, ", found ", up, ":", down);
  }
  const auto most = values.integer("most");
  const bool stream = values.flag("stream");
  return made_of("resample", {f32("samples", {open("n", most)})},
                 {f32("samples", {open("m", (most * up + down - 1) / down + 1)})},
                 Resample(up, down, stream), stream);
}

}  // namespace

std::vector<Declaration> resample_functions() {
  return {{.name = "resample",
           .says = "Samples at another rate, band-limited: for networks of sound, which know one "
                   "rate.",
           .settings = {shown_as("48000", whole("rate", "",
                                                "The rate that comes, in samples a second.", 1e7)),
                        shown_as("16000", whole("to", "", "The rate that the network knows.", 1e7)),
                        shown_as("16000", whole("most", "", "The most samples of a frame.", 1e8)),
                        flag("stream", "false",
                             "Whether frames are pieces of one sound, which comes out a little "
                             "later; else each is a sound with silence around.")},
           .make = &make_resample}};
}

}  // namespace penstock::ready
