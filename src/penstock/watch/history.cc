// Thins out old samples; joins samples and the failures that they saw for a listener.
#include "penstock/watch/history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "penstock/base/error.h"

namespace penstock::watch {
namespace {

/// Samples remembered; of more, every second of the older ones goes, so that the whole run stays.
constexpr std::size_t kMost = 2400;
constexpr std::size_t kRecent = 600;  ///< Of which none goes.
constexpr std::size_t kFailures = 1000;

constexpr std::size_t kAround = 100;  ///< Bytes of a sample's event beside what is kept.

constexpr auto kJson = [](const History::Text& text) { return text.json; };

/// A sample as it is sent.
std::string with_failures(const std::string& sample, const std::string& failures,
                          std::uint64_t missed) {
  return concat(sample.substr(0, sample.size() - 1), ",\"failures\":[", failures,
                "],\"missed\":", missed, "}");
}

}  // namespace

void History::keep(const Sample& sample) {
  failed_ += sample.failures.size() + sample.missed;
  samples_.push_back({{sample.number, text_of(sample.json)}, failed_});
  for (const auto& failure : sample.failures) {
    failures_.push_back({sample.number, text_of(failure)});
  }
  while (failures_.size() > kFailures) failures_.pop_front();
  if (samples_.size() > kMost) thin_out();
}

void History::forget_samples() {
  samples_.clear();
  failed_before_ = failed_;
}

void History::thin_out() {
  std::vector<Kept> fewer;
  const std::size_t old = samples_.size() - kRecent;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (i >= old || i % 2 == 0) fewer.push_back(std::move(samples_[i]));
  }
  samples_ = std::move(fewer);
}

std::vector<History::Text> History::since(std::uint64_t after, std::size_t most_bytes) const {
  const auto behind = std::ranges::upper_bound(samples_, after, {}, &Kept::number);
  std::uint64_t told = behind == samples_.begin() ? failed_before_ : std::prev(behind)->failed;
  auto first = samples_.end();
  auto failure = failures_.end();
  while (first != behind) {
    const auto sample = std::prev(first);
    const auto before = sample == behind ? after : std::prev(sample)->number;
    auto bytes = sample->json.size() + kAround;
    auto of_it = failure;
    while (of_it != failures_.begin() && std::prev(of_it)->number > before) {
      bytes += (--of_it)->json.size() + 1;
    }
    if (bytes > most_bytes) break;
    most_bytes -= bytes;
    first = sample;
    failure = of_it;
  }
  std::vector<Text> texts;
  for (; first != samples_.end(); ++first) {
    std::vector<std::string> list;
    for (; failure != failures_.end() && failure->number <= first->number; ++failure) {
      list.push_back(failure->json);
    }
    const auto missed = first->failed - told - list.size();
    texts.push_back({first->number, with_failures(first->json, join(list, ","), missed)});
    told = first->failed;
  }
  return texts;
}

std::string History::samples() const {
  return "[" + join(samples_, ",", kJson) + "]";
}

std::string History::last() const {
  return samples_.empty() ? "null" : samples_.back().json;
}

std::string History::failures(std::size_t most) const {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(most, failures_.size()));
  const std::vector<Text> last(failures_.end() - shown, failures_.end());
  return "[" + join(last, ",", kJson) + "]";
}

}  // namespace penstock::watch
