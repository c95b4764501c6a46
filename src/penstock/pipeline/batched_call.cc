// Gathers frames or items into rows, runs each model, and shares its outputs out to the frames.
#include "penstock/pipeline/batched_call.h"

#include <algorithm>

#include "penstock/base/option_name.h"
#include "penstock/pipeline/edge.h"
#include "penstock/pipeline/ports.h"
#include "penstock/plan/calls.h"

namespace penstock::pipeline {
namespace {

// Of as many frames as there are rows. A size that stays open has another name for them all.
Type rows_of(Type one, std::size_t rows) {
  if (one.dims.empty()) return one;
  auto& dim = one.dims.front();
  for (auto* size : {&dim.size, &dim.bound, &dim.usual}) {
    if (*size != Dim::kOpen) *size *= static_cast<std::int64_t>(rows);
  }
  dim.symbol.clear();
  return one;
}

bool whole_bytes(const Type& type) {
  std::size_t bits = bits_of(type.dtype);
  for (const auto& dim : type.dims) bits *= dim.fixed() ? static_cast<std::size_t>(dim.size) : 1;
  return bits % 8 == 0;
}

// Engines name and bound what is open each in its own way.
bool same_sizes(const Type& one, const Type& other) {
  return one.dtype == other.dtype && one.ranked && other.ranked &&
         std::ranges::equal(one.dims, other.dims, {}, &Dim::size, &Dim::size);
}

Status check_rows(const CompiledPartition& partition, const backend::Port& one,
                  const backend::Port& several, std::size_t rows, bool items) {
  const auto refuse = [&](const auto&... what) {
    return invalid_argument("the model for ", rows, " frames of '", partition.plan->model,
                            "': tensor '", several.name, "' ", what..., "; split the model again");
  };
  if (one.name != several.name) {
    return refuse("stands where the model for one frame has '", one.name, "'");
  }
  if (!one.type.ranked || one.type.dims.empty() || !whole_bytes(one.type)) {
    return refuse("is ", one.type, " for one frame: expected a list of whole bytes");
  }
  if (items && !one.type.fixed()) {
    return refuse("is ", one.type, " for one item: expected a fixed shape");
  }
  const Type expected = rows_of(one.type, rows);
  if (same_sizes(expected, several.type)) return {};
  return refuse("is ", several.type, ": expected ", expected);
}

}  // namespace

Result<std::vector<int>> batch_sizes(const plan::Stage& stage) {
  auto sizes = plan::frames_of_calls(stage);
  if (stage.batch.frames == 1 || !sizes.empty()) return sizes;
  return invalid_argument("batch: expected models for several frames of every partition, up to ",
                          stage.batch.frames, ", found none; split the model again with ",
                          OptionName::kBatch, ", or leave it out");
}

Status BatchedCall::open(Executables ones, Executables several) {
  locals_.resize(stage_.locals.size());
  for (std::size_t p = 0; p < several.size(); ++p) {
    PENSTOCK_CHECK_OK(add_part(stage_.partitions[p], *ones[p], several[p]));
  }
  return {};
}

Status BatchedCall::add_part(const CompiledPartition& partition, backend::Executable& one,
                             const std::shared_ptr<backend::Executable>& several) {
  if (one.inputs().size() != several->inputs().size() ||
      one.outputs().size() != several->outputs().size()) {
    return invalid_argument("the model for ", rows_, " frames of '", partition.plan->model,
                            "' has other inputs or outputs than the model for one; split the "
                            "model again");
  }
  const bool items = !stage_.plan->each.empty();
  Part part;
  part.executable = several;
  PENSTOCK_TRY(part.context, several->create_context());
  for (std::size_t i = 0; i < partition.outputs.size(); ++i) {
    const auto& port = several->outputs()[i];
    const Wire& wire = partition.outputs[i].wire;
    PENSTOCK_CHECK_OK(check_rows(partition, one.outputs()[i], port, rows_, items));
    auto& made = part.outputs.emplace_back(Port{wire, port.type, {}, {}, {}});
    if (!port.type.fixed()) made.type = rows_of(partition.outputs[i].type, rows_);  // With bounds.
    if (wire.kind != Wire::Kind::kLocal) {
      PENSTOCK_CHECK_OK(hold_rows(made, one.outputs()[i].type, true));
    } else if (made.type.max_bytes()) {
      PENSTOCK_CHECK_OK(restore_storage_in(memory_, made.type, locals_[wire.where]));
    }
  }
  for (std::size_t i = 0; i < partition.inputs.size(); ++i) {
    const auto& port = several->inputs()[i];
    const Wire& wire = partition.inputs[i];
    const bool shared = wire.kind == Wire::Kind::kParameter;
    auto& made = part.inputs.emplace_back(Port{wire, port.type, {}, {}, {}});
    if (shared) continue;
    PENSTOCK_CHECK_OK(check_rows(partition, one.inputs()[i], port, rows_, items));
    if (wire.kind == Wire::Kind::kLocal) continue;
    PENSTOCK_CHECK_OK(hold_rows(made, one.inputs()[i].type, false));
  }
  part.read.resize(part.inputs.size());
  part.written.resize(part.outputs.size());
  parts_.push_back(std::move(part));
  return {};
}

// Items are of one shape always: then how many there are does not matter.
bool BatchedCall::is_fixed_by_plan(const Wire& wire) const {
  const auto& type = [&]() -> const Type& {
    switch (wire.kind) {
      case Wire::Kind::kInEdge:
        return stage_.in_edges[wire.where]->types[wire.tensor];
      case Wire::Kind::kStateIn:
        return stage_.states_in[wire.where]->type();
      case Wire::Kind::kStateOut:
        return stage_.states_out[wire.where]->type();
      default:
        return stage_.out_edges[wire.where]->types[wire.tensor];
    }
  }();
  const std::size_t skipped = wire.items && !type.dims.empty() ? 1 : 0;
  return type.ranked && std::ranges::all_of(std::span(type.dims).subspan(skipped), &Dim::fixed);
}

// What the plan leaves open, frames have as they come; what is written there gets its shape.
Status BatchedCall::hold_rows(Port& port, const Type& one, bool written) {
  const bool varies = port.type.fixed() && !is_fixed_by_plan(port.wire);
  if (varies && !written) port.row = bound_of(one);
  if (port.type.fixed() && !(varies && written)) return port.rows.open(memory_, port.type, rows_);
  PENSTOCK_TRY(port.open_rows, OpenRows::make(memory_, port.type));
  return {};
}

// Of open shapes the first frames tell.
void BatchedCall::warm_up(WarmUp& warm_up, const std::vector<Tensor>* parameters) {
  if (has_open_shapes()) return;
  given_ = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!warm_up.run(context(p), [&] { return run(p, {}, parameters); })) break;
  }
  restore();
  for (auto& part : parts_) part.at_start = part.context->counters();
}

void BatchedCall::bind(std::span<const BoundFrame> frames) {
  frames_ = frames;
  given_ = frames.size();
  items_ = false;
}

void BatchedCall::bind_items(const BoundFrame& frame, std::size_t first, std::size_t count) {
  frames_ = {&frame, 1};
  first_item_ = first;
  given_ = count;
  items_ = true;
}

const Tensor& BatchedCall::tensor_of(const Wire& wire, std::size_t frame) const {
  const auto& bound = frames_[frame];
  switch (wire.kind) {
    case Wire::Kind::kInEdge:
      return *(*bound.in[wire.where])[wire.tensor];
    case Wire::Kind::kStateIn:
      return *bound.state_in[wire.where];
    default:
      return target_of(wire, frame);
  }
}

Tensor& BatchedCall::target_of(const Wire& wire, std::size_t frame) const {
  const auto& bound = frames_[frame];
  return wire.kind == Wire::Kind::kStateOut ? *bound.state_out[wire.where]
                                            : (*bound.out[wire.where])[wire.tensor];
}

bool BatchedCall::has_open_shapes() const {
  const auto open = [](const Port& port) { return !port.type.fixed(); };
  return std::ranges::any_of(parts_, [&](const Part& part) {
    return std::ranges::any_of(part.inputs, open) || std::ranges::any_of(part.outputs, open);
  });
}

Status BatchedCall::check_row(const Port& port, const Tensor& tensor) {
  if (port.row == tensor.dims()) return {};
  return make_error(Code::kFailedPrecondition, "expected rows of ",
                    Type::tensor(tensor.dtype(), std::span(port.row)), ", found ", tensor.type());
}

// An error is told to nobody: each frame, or item, then runs alone.
Status BatchedCall::find_rows(Port& port) const {
  for (std::size_t i = 0; i < given_; ++i) {
    const Tensor& tensor = tensor_of(port.wire, items_ ? 0 : i);
    if (!port.row.empty()) PENSTOCK_CHECK_OK(check_row(port, tensor));
    std::size_t offset = 0;
    if (items_ && port.wire.items) {
      const auto items = static_cast<std::size_t>(tensor.dims().front());
      offset = (first_item_ + i) * (tensor.bytes() / items);
    }
    port.rows.put(i, static_cast<const std::byte*>(tensor.data()) + offset, tensor.owner());
  }
  return {};
}

Result<const Tensor*> BatchedCall::gather(Port& port, std::uint64_t& copies) {
  if (!port.open_rows) {
    PENSTOCK_CHECK_OK(find_rows(port));
    return port.rows.to_read(given_, copies);
  }
  read_.clear();
  for (std::size_t i = 0; i < given_; ++i) read_.push_back(&tensor_of(port.wire, i));
  return port.open_rows->to_read(read_, rows_, copies);
}

Result<Tensor*> BatchedCall::prepare(Port& port) {
  if (port.wire.kind == Wire::Kind::kLocal) {
    Tensor& local = locals_[port.wire.where];
    if (!port.type.fixed() && port.wire.fresh) local = Tensor();
    if (!port.type.fixed() && !port.wire.fresh)
      PENSTOCK_CHECK_OK(restore_storage_in(memory_, port.type, local));
    return &local;
  }
  if (port.open_rows) return port.open_rows->to_write();
  PENSTOCK_CHECK_OK(find_rows(port));
  return port.rows.to_write(given_);
}

Status BatchedCall::run(std::size_t p, const backend::Call& call,
                        const std::vector<Tensor>* parameters) {
  if (!whole_) PENSTOCK_CHECK_OK(try_restore());
  auto& part = parts_[p];
  std::uint64_t copies = 0;
  for (std::size_t i = 0; i < part.inputs.size(); ++i) {
    auto& port = part.inputs[i];
    if (port.wire.kind == Wire::Kind::kLocal) {
      part.read[i] = &locals_[port.wire.where];
    } else if (port.wire.kind == Wire::Kind::kParameter) {
      part.read[i] = &(*parameters)[port.wire.where];
    } else {
      PENSTOCK_TRY(part.read[i], gather(port, copies));
    }
  }
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    PENSTOCK_TRY(part.written[i], prepare(part.outputs[i]));
  }
  copies_.fetch_add(copies, std::memory_order_relaxed);
  return part.context->run(call, part.read, part.written);
}

Status BatchedCall::share_out(std::size_t p) {
  auto& part = parts_[p];
  std::uint64_t copies = 0;
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    auto& port = part.outputs[i];
    PENSTOCK_CHECK_OK(check_output(stage_.partitions[p], i, port.type, *part.written[i]));
    PENSTOCK_CHECK_OK(check_place(stage_.partitions[p], i, memory_, *part.written[i]));
    if (port.wire.kind == Wire::Kind::kLocal) continue;
    if (port.open_rows) {
      written_.clear();
      for (std::size_t k = 0; k < given_; ++k) written_.push_back(&target_of(port.wire, k));
      PENSTOCK_CHECK_OK(port.open_rows->share_out(written_, rows_, port.wire.fresh, copies));
    } else {
      PENSTOCK_CHECK_OK(port.rows.share_out(given_, copies));
    }
  }
  let_go(part);
  copies_.fetch_add(copies, std::memory_order_relaxed);
  return {};
}

// A tensor that a caller pushed is the caller's again as soon as its frame is out.
void BatchedCall::let_go(Part& part) {
  for (auto& port : part.inputs) port.rows.let_go();
  for (auto& port : part.outputs) port.rows.let_go();
}

Status BatchedCall::try_restore() {
  whole_ = false;
  for (auto& part : parts_) {
    let_go(part);
    for (auto& port : part.outputs) {
      if (port.wire.kind != Wire::Kind::kLocal) {
        PENSTOCK_CHECK_OK(port.open_rows ? port.open_rows->restore() : port.rows.restore());
      } else if (port.type.max_bytes()) {
        PENSTOCK_CHECK_OK(restore_storage_in(memory_, port.type, locals_[port.wire.where]));
      } else {
        locals_[port.wire.where] = Tensor();
      }
    }
  }
  whole_ = true;
  return {};
}

// Where a memory has none, the next call asks for it again.
void BatchedCall::restore() {
  static_cast<void>(try_restore());
}

void BatchedCall::cancel() {
  for (auto& part : parts_) part.context->cancel();
}

Counters BatchedCall::counters() const {
  Counters sum;
  for (const auto& part : parts_) add_since(sum, part.at_start, *part.context);
  sum.copies += copies_.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace penstock::pipeline
