// Families: figures by name and labels, written as Prometheus reads them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace penstock::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

enum class Kind : unsigned char {
  kCounter,  ///< Only grows, but for a new start.
  kGauge,
};

/// \threads  one at a time.
class Families {
 public:
  Families();
  Families(const Families&) = delete;
  Families& operator=(const Families&) = delete;
  ~Families();

  /// Figures of one name stand together, with the kind and the help of the first.
  void add(Kind kind, const std::string& name, const std::string& help, const Labels& labels,
           double value);
  /// Prometheus' text format, version 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// `labels`, then `more`.
Labels with(Labels labels, const Labels& more);

/// The type of text() in HTTP.
inline constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace penstock::metrics
