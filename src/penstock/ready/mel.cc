// `mel_spectrogram`: how loud a sound is over time, in bands as wide as the ear's.
#include <algorithm>
#include <cmath>
#include <complex>

#include <kissfft/kissfft.hh>

#include "penstock/ready/families.h"
#include "penstock/ready/hann.h"
#include "penstock/ready/kernel.h"
#include "penstock/ready/settings.h"
#include "penstock/ready/values.h"

namespace penstock::ready {
namespace {

/// Hz to mels: Stevens' formula as HTK writes it, or Slaney's, which is linear up to 1000 Hz.
struct Scale {
  bool htk;

  [[nodiscard]] double mels(double hz) const {
    if (htk) return 2595 * std::log10(1 + hz / 700);
    return hz < kKnee ? hz / kStep : kKnee / kStep + std::log(hz / kKnee) / kLogStep;
  }
  [[nodiscard]] double hz(double mels) const {
    if (htk) return 700 * (std::pow(10, mels / 2595) - 1);
    return mels < kKnee / kStep ? mels * kStep
                                : kKnee * std::exp((mels - kKnee / kStep) * kLogStep);
  }

  static constexpr double kKnee = 1000, kStep = 200.0 / 3;
  inline static const double kLogStep = std::log(6.4) / 27;
};

/// A triangle over the spectrum: `weights` from bin `first` on.
struct Band {
  std::size_t first = 0;
  std::vector<float> weights;
};

struct BandSettings {
  double rate, low, high;
  std::size_t fft, mels;
  bool htk, even;  // Whether each band has one area.
};

std::vector<Band> bands_of(const BandSettings& settings) {
  const Scale scale{settings.htk};
  const double from = scale.mels(settings.low), to = scale.mels(settings.high);
  std::vector<double> edges;
  for (std::size_t i = 0; i < settings.mels + 2; ++i) {
    edges.push_back(scale.hz(from + (to - from) * static_cast<double>(i) /
                                        static_cast<double>(settings.mels + 1)));
  }
  std::vector<Band> bands(settings.mels);
  for (std::size_t m = 0; m < settings.mels; ++m) {
    const double left = edges[m], top = edges[m + 1], right = edges[m + 2];
    for (std::size_t bin = 0; bin <= settings.fft / 2; ++bin) {
      const double hz =
          static_cast<double>(bin) * settings.rate / static_cast<double>(settings.fft);
      const double height = std::min((hz - left) / (top - left), (right - hz) / (right - top));
      if (height <= 0) continue;
      if (bands[m].weights.empty()) bands[m].first = bin;
      bands[m].weights.push_back(
          static_cast<float>(height * (settings.even ? 2 / (right - left) : 1)));
    }
  }
  return bands;
}

/// The power of each frequency of `size` real samples.
class Spectrum {
 public:
  explicit Spectrum(std::size_t size)
      : fft_(size % 2 == 0 ? size / 2 : size, false), in_(size), out_(size), power_(size / 2 + 1) {}

  const std::vector<float>& power(const std::vector<float>& samples) {
    const auto size = samples.size(), half = size / 2;
    if (size % 2 == 0) {
      fft_.transform_real(samples.data(), out_.data());
      power_[0] = out_[0].real() * out_[0].real();  // The highest frequency stands beside it.
      power_[half] = out_[0].imag() * out_[0].imag();
    } else {
      std::ranges::copy(samples, in_.begin());
      fft_.transform(in_.data(), out_.data());
      power_[0] = std::norm(out_[0]);
      power_[half] = std::norm(out_[half]);
    }
    for (std::size_t i = 1; i < half; ++i) power_[i] = std::norm(out_[i]);
    return power_;
  }

 private:
  kissfft<float> fft_;
  std::vector<std::complex<float>> in_, out_;
  std::vector<float> power_;
};

enum class Log { kNone, kNatural, kTen, kDecibel, kWhisper };

Log parse_log(const std::string& word) {
  if (word == "natural") return Log::kNatural;
  if (word == "log10") return Log::kTen;
  if (word == "db") return Log::kDecibel;
  return word == "whisper" ? Log::kWhisper : Log::kNone;
}

struct Mel {
  std::size_t fft, hop, frames;
  bool centre, magnitude;
  Log log;
  float floor;
  std::vector<Band> bands;
  std::vector<float> window;
  Spectrum spectrum;
  std::vector<float> padded = {}, part = {};

  Status run(Inputs in, Outputs out) {
    pad(in[0]->as<float>());
    part.resize(fft);
    const auto to = out[0]->as<float>();
    for (std::size_t t = 0; t < frames; ++t) {
      const float* from = padded.data() + t * hop;
      for (std::size_t i = 0; i < fft; ++i) part[i] = from[i] * window[i];
      const auto& power = spectrum.power(part);
      for (std::size_t m = 0; m < bands.size(); ++m) to[m * frames + t] = sum(bands[m], power);
    }
    scale(to);
    return {};
  }

  /// Half a window of the sound mirrored at both ends, where windows stand around their time.
  void pad(std::span<const float> samples) {
    const auto side = centre ? static_cast<std::ptrdiff_t>(fft / 2) : 0;
    const auto size = static_cast<std::ptrdiff_t>(samples.size());
    padded.resize(static_cast<std::size_t>(size + 2 * side));
    for (std::ptrdiff_t i = 0; i < side; ++i) {
      padded[static_cast<std::size_t>(i)] = samples[static_cast<std::size_t>(side - i)];
      padded[static_cast<std::size_t>(side + size + i)] =
          samples[static_cast<std::size_t>(size - 2 - i)];
    }
    std::ranges::copy(samples, padded.begin() + side);
  }

  [[nodiscard]] float sum(const Band& band, const std::vector<float>& power) const {
    float sum = 0;
    for (std::size_t i = 0; i < band.weights.size(); ++i) {
      const float of_bin = power[band.first + i];
      sum += band.weights[i] * (magnitude ? std::sqrt(of_bin) : of_bin);
    }
    return sum;
  }

  void scale(std::span<float> values) const {
    if (log == Log::kNone) return;
    for (auto& value : values) {
      value = std::max(value, floor);
      value = log == Log::kNatural ? std::log(value) : std::log10(value);
      if (log == Log::kDecibel) value *= 10;
    }
    if (log != Log::kWhisper) return;
    // Whisper hears nothing more than 80 dB below the loudest, and wants about -1 to 1.
    const float least = *std::ranges::max_element(values) - 8;
    for (auto& value : values) value = (std::max(value, least) + 4) / 4;
  }
};

Result<BandSettings> band_settings(const Values& values) {
  BandSettings settings{values.number("rate"),
                        values.number("low"),
                        values.number("high"),
                        static_cast<std::size_t>(values.integer("fft")),
                        static_cast<std::size_t>(values.integer("mels")),
                        values.word("scale") == "htk",
                        values.flag("even")};
  if (settings.high == 0) settings.high = settings.rate / 2;
  if (settings.high > settings.rate / 2 || settings.low >= settings.high) {
    return invalid_argument(
        "settings 'low' and 'high': expected low below high, and high at most "
        "half the rate, ",
        settings.rate / 2, ", found ", settings.low, " and ", settings.high);
  }
  return settings;
}

Result<function::Function> make_mel(const Values& values) {
  PENSTOCK_TRY(const auto settings, band_settings(values));
  const auto samples = values.integer("samples"), hop = values.integer("hop");
  const auto fft = values.integer("fft");
  const bool centre = values.flag("centre");
  const auto least = centre ? fft / 2 + 1 : fft;  // What is mirrored is there once.
  if (samples < least) {
    return invalid_argument("setting 'samples': expected ", least, " or more for windows of ", fft,
                            " ('fft'), found ", samples);
  }
  const auto windows = 1 + (centre ? samples + fft / 2 * 2 - fft : samples - fft) / hop;
  const auto frames = values.flag("last") ? windows : windows - 1;
  if (frames < 1) return invalid_argument("setting 'last': there is one window, and no other");
  return made_of("mel_spectrogram", {f32("samples", {sized(samples)})},
                 {f32("mels", {sized(1), sized(values.integer("mels")), sized(frames)})},
                 Mel{settings.fft, static_cast<std::size_t>(hop), static_cast<std::size_t>(frames),
                     centre, values.word("of") == "magnitude", parse_log(values.word("log")),
                     static_cast<float>(values.number("floor")), bands_of(settings),
                     hann(settings.fft), Spectrum(settings.fft)});
}

}  // namespace

std::vector<Declaration> mel_functions() {
  return {
      {.name = "mel_spectrogram",
       .says = "How loud each band of mels is in each window of a sound [1, mels, windows], "
               "windows being Hann's: for recognisers, tagging and wake words. Whisper wants "
               "samples 480000, mels 80 or 128, log whisper and last false.",
       .settings = {shown_as("16000", whole("samples", "", "How many samples a frame has.", 1e8)),
                    number("rate", "16000", "Samples a second.", 1, 1e7),
                    whole("fft", "400", "Of a window, in samples.", 1e6),
                    whole("hop", "160", "From one window to the next.", 1e6),
                    whole("mels", "80", "How many bands.", 4096),
                    number("low", "0", "Where the first band begins, in Hz.", 0, 1e7),
                    number("high", "0", "Where the last one ends; 0: at half the rate.", 0, 1e7),
                    word("scale", "slaney", "Whose mels.", "slaney|htk"),
                    flag("even", "true",
                         "Whether each band has the same area, as Slaney has it; else the "
                         "same height."),
                    word("of", "power", "What is summed in a band.", "power|magnitude"),
                    word("log", "none",
                         "Natural, to the base 10, ten times that, or as Whisper scales it.",
                         "none|natural|log10|db|whisper"),
                    number("floor", "1e-10", "The least of which a logarithm is taken.", 1e-30, 1),
                    flag("centre", "true",
                         "Whether windows stand around their time, the sound mirrored at its "
                         "ends."),
                    flag("last", "true", "Whether the last window is kept.")},
       .make = &make_mel}};
}

}  // namespace penstock::ready
