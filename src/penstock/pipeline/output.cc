// Output: a result that the caller holds, and gives back.
#include <algorithm>

#include "penstock/pipeline/generations.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/pipeline/ports.h"

namespace penstock::pipeline {

Output::Output(std::shared_ptr<State> state, FrameNumber number, By by)
    : state_(std::move(state)), number_(number) {
  auto& record = state_->record(number);
  tag_ = record.tag;
  stream_ = record.stream;
  const std::int64_t now = now_ns();
  latency_ = std::chrono::nanoseconds(now - record.pushed_ns);
  if (state_->journeys) state_->journeys->add({number, record.pushed_ns, now});
  for (Edge* edge : state_->output_edges) {
    if (edge->lossy()) edge->begin_read(number);
  }
  state_->streams->pop(record);
  if (!record.come_out()) std::tie(outcome_, error_) = record.take_failure();
  if (auto* const observer = state_->totals->observer.get()) observer->note(*this, by == By::kPop);
  by == By::kPop ? state_->totals->count_popped(outcome_) : state_->totals->count(outcome_);
  // Last: from here on a later frame may take the record.
  if (ok()) {
    state_->loans.lend(number);
  } else {
    state_->loans.pass(number);
    state_.reset();
  }
}

Output::Output(Output&&) noexcept = default;
Output& Output::operator=(Output&& other) noexcept {
  if (this == &other) return *this;
  release();
  state_ = std::move(other.state_);
  number_ = other.number_;
  tag_ = other.tag_;
  stream_ = other.stream_;
  outcome_ = other.outcome_;
  latency_ = other.latency_;
  error_ = std::move(other.error_);
  return *this;
}
Output::~Output() {
  release();
}

void Output::release() {
  if (!state_) return;
  state_->loans.give_back(number_);
  state_.reset();
}

std::size_t Output::size() const {
  return ok() && state_ ? state_->output_places.size() : 0;
}

const Tensor& Output::operator[](std::size_t index) const {
  const Place& place = state_->output_places[index];
  return *state_->loans.slot(*place.edge, number_).now[place.tensor];
}

const Tensor* Output::find(std::string_view name) const {
  if (!ok()) return nullptr;
  const auto& outputs = state_->plan.outputs;
  const auto found = std::ranges::find(outputs, name, &plan::TensorInfo::name);
  return found == outputs.end() ? nullptr
                                : &(*this)[static_cast<std::size_t>(found - outputs.begin())];
}

Tensor Output::take(std::size_t index) {
  const Place& place = state_->output_places[index];
  Slot& slot = state_->loans.slot(*place.edge, number_);
  // Others may still read the slot of an input, or of an edge that stages read too.
  if (place.edge->from == plan::kPipelineInput || place.edge->to.size() > 1)
    return (*this)[index].clone();
  Tensor fresh = storage_for(place.edge->types[place.tensor]);  // First: it may throw bad_alloc.
  return std::exchange(slot.own[place.tensor], std::move(fresh));
}

}  // namespace penstock::pipeline
