// Which cases of a long sweep to run: all, or a sample.
//
// PENSTOCK_SAMPLE: the sample's seed, any text; unset: all cases. Under the address sanitizer fewer
// in either way: the cases run the same lines of ours over and over.
// PENSTOCK_LEFT_OUT: a file to which each sweep appends a line with the cases that it leaves out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Of how many cases one is run, where a sample takes one of `of_sample`.
inline std::uint64_t one_of(std::uint64_t of_sample) {
  return (std::getenv("PENSTOCK_SAMPLE") == nullptr ? 1 : of_sample) * (kSanitized ? 10 : 1);
}

/// The long sweep that the running test makes.
class Sweep {
 public:
  /// A sample takes about one of `of_sample` cases; 1: all, always. Two sweeps of one test differ
  /// by `part`.
  explicit Sweep(std::uint64_t of_sample = 4, std::string part = "")
      : one_of_(of_sample == 1 ? 1 : one_of(of_sample)) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    name_ = std::string(test->test_suite_name()) + "." + test->name() + part;
  }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;
  ~Sweep() {
    const char* file = std::getenv("PENSTOCK_LEFT_OUT");
    if (file == nullptr || left_out_.empty()) return;
    // One write, at the end of the file: other tests write there too.
    std::ofstream(file, std::ios::app) << name_ + ":" + left_out_ + "\n" << std::flush;
  }

  /// Of cases with names the places of those to take: one at least.
  template <typename Cases>
  std::vector<std::size_t> places(const Cases& cases) {
    std::vector<std::size_t> taken;
    const std::uint64_t sure = cases.empty() ? 0 : hash_of("sure") % cases.size();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (i == sure || hash_of(cases[i].name) % one_of_ == 0) {
        taken.push_back(i);
      } else {
        left_out_ += " " + cases[i].name;
      }
    }
    return taken;
  }

  /// Those of the numbers from `first` on to take: one at least.
  std::vector<std::uint64_t> numbers(std::uint64_t first, std::uint64_t count) {
    const std::uint64_t sure = first + hash_of("sure") % count;
    std::vector<std::uint64_t> taken;
    for (std::uint64_t number = first; number < first + count; ++number) {
      if (number == sure || hash_of(std::to_string(number)) % one_of_ == 0) {
        taken.push_back(number);
        end_run(number);
      } else if (run_ == kNone) {
        run_ = number;
      }
    }
    end_run(first + count);
    return taken;
  }

 private:
  static constexpr std::uint64_t kNone = UINT64_MAX;

  /// Tells the numbers from `run_` to before `end`, which were left out.
  void end_run(std::uint64_t end) {
    if (run_ == kNone) return;
    left_out_ += " " + std::to_string(run_);
    if (end - run_ > 1) left_out_ += "-" + std::to_string(end - 1);
    run_ = kNone;
  }

  /// FNV-1a, 64 bits, of the seed, the sweep and the case, then MurmurHash3's last mixing:
  /// neighbours must differ in all bits.
  [[nodiscard]] std::uint64_t hash_of(std::string_view item) const {
    const char* seed = std::getenv("PENSTOCK_SAMPLE");
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const std::string_view text :
         {std::string_view(seed == nullptr ? "" : seed), std::string_view(name_), item}) {
      for (const char letter : text)
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
      hash = (hash ^ 0xffU) * 0x100000001b3U;
    }
    for (const std::uint64_t factor : {0xff51afd7ed558ccdU, 0xc4ceb9fe1a85ec53U}) {
      hash = (hash ^ (hash >> 33U)) * factor;
    }
    return hash ^ (hash >> 33U);
  }

  std::uint64_t one_of_;
  std::string name_, left_out_;
  std::uint64_t run_ = kNone;
};

/// Those of the numbers 0 to `count` - 1, or from `first` on, that the running test's sweep takes.
inline std::vector<std::uint64_t> sampled(std::uint64_t count, std::uint64_t first = 0) {
  return Sweep(4, first == 0 ? "" : "/" + std::to_string(first)).numbers(first, count);
}

/// How often at least something must come about in the running sample, where it comes about more
/// than `whole` times in all cases: four standard deviations fewer (of a Poisson count) than a
/// sample of that size lets expect, so that a sample's luck fails no test. A small sample asks for
/// nothing.
inline std::uint64_t in_sample(std::uint64_t whole) {
  const std::uint64_t fewer = one_of(4);
  if (fewer == 1) return whole;
  const double expected = static_cast<double>(whole) / static_cast<double>(fewer);
  return static_cast<std::uint64_t>(std::max(0.0, expected - 4 * std::sqrt(expected)));
}

}  // namespace penstock
