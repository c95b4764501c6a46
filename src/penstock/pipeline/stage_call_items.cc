// StageCall: runs the models for each item of a frame, or for several items at once.
#include <algorithm>
#include <cstring>
#include <optional>

#include "penstock/base/words.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/ports.h"
#include "penstock/pipeline/stage_call.h"

namespace penstock::pipeline {
namespace {

// A view of one item.
Tensor item_of(Tensor& whole, std::int64_t item) {
  const auto& dims = whole.dims();
  const std::size_t bytes = whole.bytes() / static_cast<std::size_t>(dims.front());
  return Tensor::view(
      whole.dtype(), {dims.begin() + 1, dims.end()},
      static_cast<std::byte*>(whole.data()) + static_cast<std::size_t>(item) * bytes);
}
Tensor item_of(const Tensor& whole, std::int64_t item) {
  Tensor same = whole;  // Shares the storage; is read only.
  return item_of(same, item);
}

}  // namespace

// Gathers what every item has in common, and gives the outputs their number of items.
Result<std::int64_t> StageCall::count_items() {
  std::optional<std::int64_t> count;
  std::string first;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    gather(p);
    const auto& partition = stage_.partitions[p];
    for (std::size_t i = 0; i < partition.inputs.size(); ++i) {
      const Wire& wire = partition.inputs[i];
      if (!wire.items || wire.kind == Wire::Kind::kOutEdge || wire.kind == Wire::Kind::kStateOut)
        continue;
      const auto& name = partition.plan->inputs[std::min(i, partition.plan->inputs.size() - 1)];
      const auto& dims = parts_[p].inputs[i]->dims();
      if (dims.empty()) {
        return invalid_argument("'", name, "' is one value: expected a list of items");
      }
      const auto items = dims.front();
      if (!count) first = name;
      if (count.value_or(items) != items) {
        return invalid_argument("'", first, "' holds ", counted(*count, "item"), ", '", name,
                                "' holds ", items, ": expected as many");
      }
      count = items;
    }
  }
  const auto items = count.value_or(0);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    for (std::size_t i = 0; i < parts_[p].outputs.size(); ++i) {
      if (!stage_.partitions[p].outputs[i].wire.items) continue;
      Tensor& whole = *parts_[p].outputs[i];
      auto dims = whole.dims();
      if (!dims.empty()) dims.front() = items;
      if (!dims.empty() && whole.set_dims(dims)) continue;
      return make_error(Code::kOutOfRange, "an output has no room for ", counted(items, "item"));
    }
  }
  return items;
}

// Of the lists that are gathered, one item each.
void StageCall::view_item(std::size_t p, std::int64_t item) {
  auto& part = parts_[p];
  const auto& partition = stage_.partitions[p];
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    if (!partition.inputs[i].items) continue;
    part.input_items[i] = item_of(*part.inputs[i], item);
    part.inputs[i] = &part.input_items[i];
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    if (!partition.outputs[i].wire.items) continue;
    part.output_items[i] = item_of(*part.outputs[i], item);
    part.outputs[i] = &part.output_items[i];
    part.places[i] = part.outputs[i]->data();
  }
}

Status StageCall::run_item(std::int64_t item) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (clock_.abandoned()) return abandoned();
    gather(p);
    view_item(p, item);
    auto& part = parts_[p];
    const auto& partition = stage_.partitions[p];
    PENSTOCK_CHECK_OK(part.context->run(call_of(*at_), part.inputs, part.outputs));
    PENSTOCK_CHECK_OK(part.context->wait(backend::kNoDeadline));
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      PENSTOCK_CHECK_OK(check_output(partition, i, partition.outputs[i].type, *part.outputs[i]));
      if (!partition.outputs[i].wire.items) continue;
      PENSTOCK_CHECK_OK(put_in_place(partition.outputs[i], *part.outputs[i], part.places[i]));
    }
  }
  return {};
}

// An item has its place in the list, as large as the others': it is copied there if it lies
// elsewhere.
Status StageCall::put_in_place(const Target& target, const Tensor& item, void* place) {
  const Tensor& whole = target_of(target.wire);
  if (!std::ranges::equal(std::span(whole.dims()).subspan(1), item.dims())) {
    return make_error(Code::kOutOfRange, "output '", target.name, "' is ", item.type(),
                      ", where each item has its place in ", whole.type(),
                      "; items must be of one shape");
  }
  if (item.data() == place || item.bytes() == 0) return {};
  std::memcpy(place, item.data(), item.bytes());
  copies_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

// Scatter: one call for as many items as the stage takes, in order, each writing its own place of
// the outputs. Where a call for several fails, each item runs alone.
Status StageCall::run_items() {
  if (sample_) note_begin();
  PENSTOCK_TRY(const auto items, count_items());
  const auto most = static_cast<std::int64_t>(batched_.empty() ? 1 : batched_.back()->rows());
  for (std::int64_t first = 0; first < items; first += most) {
    PENSTOCK_CHECK_OK(check_wanted());
    const auto end = std::min(items, first + most);
    if (end - first > 1 && run_items_together(first, static_cast<std::size_t>(end - first))) {
      continue;
    }
    for (std::int64_t item = first; item < end; ++item) {
      PENSTOCK_CHECK_OK(check_wanted());
      Status ran = run_item(item);
      if (!ran) return std::move(ran).error().within({Where::kItem, item});
    }
  }
  return {};
}

Status StageCall::run_items_together(std::int64_t first, std::size_t count) {
  auto& batched = smallest_for(count);
  if (parameters_) advance_parameters(at_->frame);
  batched.bind_items(*at_, static_cast<std::size_t>(first), count);
  Status ran = guarded([&]() -> Status {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      PENSTOCK_CHECK_OK(check_wanted());
      PENSTOCK_CHECK_OK(batched.run(p, call_of(*at_), values_));
      PENSTOCK_CHECK_OK(batched.context(p).wait(backend::kNoDeadline));
      PENSTOCK_CHECK_OK(batched.share_out(p));
    }
    return {};
  });
  if (ran) {
    idle_rows_of_items_ += batched.rows() - count;
  } else if (!clock_.abandoned()) {
    batched.restore();
  }
  return ran;
}

}  // namespace penstock::pipeline
