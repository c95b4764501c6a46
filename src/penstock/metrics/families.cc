// Collects the figures as families of prometheus-cpp, whose serializer writes the text.
#include "penstock/metrics/families.h"

#include <cstddef>
#include <map>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace penstock::metrics {

struct Families::State {
  std::vector<prometheus::MetricFamily> families;
  std::map<std::string, std::size_t> index;
};

Families::Families() : state_(std::make_unique<State>()) {}
Families::~Families() = default;

void Families::add(Kind kind, const std::string& name, const std::string& help,
                   const Labels& labels, double value) {
  using prometheus::MetricType;
  auto& families = state_->families;
  const auto [at, is_new] = state_->index.try_emplace(name, families.size());
  if (is_new) {
    families.push_back({.name = name,
                        .help = help,
                        .type = kind == Kind::kCounter ? MetricType::Counter : MetricType::Gauge,
                        .metric = {}});
  }
  auto& metric = families[at->second].metric.emplace_back();
  for (const auto& [label, text] : labels) metric.label.push_back({label, text});
  metric.counter.value = value;
  metric.gauge.value = value;
}

std::string Families::text() const {
  return prometheus::TextSerializer().Serialize(state_->families);
}

Labels with(Labels labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

}  // namespace penstock::metrics
