// Runs single models on frames, batched ones on these joined, and compares.
#include "penstock/session/batch_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "penstock/backend/plain_model.h"
#include "penstock/base/option_name.h"
#include "penstock/measure/variants.h"
#include "penstock/session/refused_node.h"
#include "penstock/tensor/compare.h"
#include "penstock/tensor/npy.h"
#include "penstock/tensor/random.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFrames = 3;  ///< Different ones; a larger batch holds them again and again.

/// As many as are checked: those of the first one's shapes, then their elements in reverse order,
/// so that frames differ and hold what the network takes; again and again.
std::vector<frames::Frame> alike(const std::vector<frames::Frame>& frames) {
  std::vector<frames::Frame> taken;
  const auto same_dims = [](const Tensor& a, const Tensor& b) { return a.dims() == b.dims(); };
  for (const auto& frame : frames) {
    if (taken.size() == kFrames) break;
    if (std::ranges::equal(frame, frames.front(), same_dims)) taken.push_back(frame);
  }
  for (std::size_t i = 0; !taken.empty() && taken.size() < kFrames; ++i) {
    taken.push_back(measure::reversed(taken[i]));
  }
  return taken;
}

/// Another size for each dimension that is open, within its bound.
Type of_other_sizes(Type type) {
  for (auto& dim : type.dims) {
    if (dim.fixed()) continue;
    const auto likely = dim.likely();
    if (likely > 1) {
      dim.bound = (likely + 1) / 2;
    } else if (dim.bound != 1) {
      dim.bound = 2;
    }
  }
  return type;
}

class BatchCheck {
 public:
  BatchCheck(const plan::Plan& plan, fs::path folder, const backend::Registry& backends,
             const std::vector<frames::Frame>* frames)
      : plan_(plan), folder_(std::move(folder)), backends_(backends) {
    if (frames == nullptr) return;
    for (const auto& frame : alike(*frames)) {
      for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
        if (frame[i].kind() == Tensor::Kind::kDense)
          given_[plan_.inputs[i].name].push_back(frame[i]);
      }
    }
  }

  Result<FrameValues> run() {
    for (const auto& parameter : plan_.parameters) {
      PENSTOCK_TRY(parameters_[parameter.name],
                   read_npy(folder_ / parameter.file, parameter.type.dtype));
    }
    values_ = given_;
    PENSTOCK_CHECK_OK(check_values());
    FrameValues values = std::move(values_);
    if (!any_open()) return values;
    other_sizes_ = true;
    values_.clear();
    PENSTOCK_CHECK_OK(check_stages());
    return values;
  }

 private:
  [[nodiscard]] bool any_open() const {
    const auto is_open = [](const plan::TensorInfo& info) { return !info.type.fixed(); };
    return std::ranges::any_of(plan_.inputs, is_open);
  }

  /// Values that the network itself does not take, as an index past the end, are drawn again.
  Status check_values() {
    constexpr int kMostRefused = 12;
    for (int refused = 0;; ++refused) {
      refused_frame_.reset();
      Status checked = check_stages();
      if (checked || !refused_frame_ || drawn_.empty() || refused == kMostRefused) return checked;
      PENSTOCK_CHECK_OK(draw_again(*refused_frame_));
    }
  }

  Status draw_again(std::size_t frame) {
    FrameValues values = given_;
    for (const auto& name : drawn_) {
      values[name] = std::move(values_[name]);
      PENSTOCK_TRY(values[name][frame], draw(*plan_.find_tensor(name)));
    }
    values_ = std::move(values);
    return {};
  }

  Status check_stages() {
    for (const auto& stage : plan_.stages) {
      if (!needed(stage)) continue;
      for (const auto& partition : stage.partitions) {
        if (Status ran = run_singly(partition); !ran) {
          if (other_sizes_) return {};  // Sizes that the network itself does not take.
          return name_refused_node(std::move(ran).error().within({Where::kStage, stage.name}),
                                   plan::Package{.plan = plan_, .folder = folder_, .files = {}});
        }
        if (Status same = check(partition); !same) {
          return std::move(same).error().within({Where::kStage, stage.name});
        }
      }
    }
    return {};
  }

  /// What an engine says of a frame whose sizes the inputs' types allow.
  [[nodiscard]] Error refused(const Error& error, const plan::Partition& partition,
                              const std::vector<Tensor>& inputs) const {
    std::vector<std::string> given;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      given.push_back(concat("input '", partition.inputs[i], "' as ", inputs[i].type()));
    }
    const std::string fix = any_open() ? concat("fix sizes (", OptionName::kShapes, "), or ") : "";
    return make_error(
               error.code, "its model of one frame does not take ",
               any_open() || drawn_.empty() ? "" : "random values of ", join(given, ", "),
               ", with which the models for several are checked: ", fix,
               "leave the stage out of the batch (STAGE=1); the engine says: ", error.message())
        .within({Where::kModel, partition.model});
  }

  Result<backend::PlainModel> compile(const plan::Partition& partition, const std::string& model) {
    for (const auto& name : {std::string("onnxruntime"), partition.backend}) {
      const auto found = backends_.find(name);
      if (!found || !(*found)->describe().unavailable.empty()) continue;
      backend::CompileRequest request;
      if (!(*found)->accepts(request.device)) continue;  // It computes on accelerators alone.
      request.file = folder_ / model;
      request.optimize = false;
      if (name == partition.backend) request.options = partition.options;
      for (const auto& library : plan_.custom_ops) request.custom_ops.push_back(folder_ / library);
      return backend::PlainModel::create(**found, request);
    }
    return make_error(Code::kUnavailable,
                      "no engine is here to check the models for several frames with; install "
                      "onnxruntime, or leave out the batch");
  }

  /// What the tensor is for each frame: given, or made by an earlier stage, else random.
  Result<std::vector<Tensor>*> values_of(const std::string& name) {
    auto& values = values_[name];
    const auto* info = plan_.find_tensor(name);
    while (info != nullptr && values.size() < kFrames) {
      PENSTOCK_TRY(auto value, draw(*info));
      values.push_back(std::move(value));
      drawn_.insert(name);
    }
    return &values;
  }

  Result<Tensor> draw(const plan::TensorInfo& info) {
    return random_tensor(other_sizes_ ? of_other_sizes(info.type) : info.type, random_,
                         {.range = info.range, .words = info.words});
  }

  /// Of one frame, or of several where `frames` is more than 1.
  Result<std::vector<Tensor>> inputs_of(const plan::Partition& partition, std::size_t frame,
                                        int frames) {
    std::vector<Tensor> inputs;
    for (const auto& name : partition.inputs) {
      if (const auto parameter = parameters_.find(name); parameter != parameters_.end()) {
        inputs.push_back(parameter->second);
        continue;
      }
      PENSTOCK_TRY(const auto* values, values_of(name));
      inputs.push_back(frames > 1 ? join_frames(*values, frames) : (*values)[frame]);
    }
    return inputs;
  }

  static Result<std::vector<Tensor>> call(backend::PlainModel& model,
                                          const std::vector<Tensor>& inputs) {
    std::vector<const Tensor*> pointers;
    pointers.reserve(inputs.size());
    for (const auto& input : inputs) pointers.push_back(&input);
    PENSTOCK_CHECK_OK(model.run(pointers));
    return model.take_values();
  }

  /// Its outputs for each frame are what later stages read.
  Status run_singly(const plan::Partition& partition) {
    PENSTOCK_TRY(auto model, compile(partition, partition.model));
    for (std::size_t frame = 0; frame < kFrames; ++frame) {
      PENSTOCK_TRY(const auto inputs, inputs_of(partition, frame, 1));
      auto outputs = call(model, inputs);
      if (!outputs) {
        refused_frame_ = frame;
        return refused(std::move(outputs).error(), partition, inputs);
      }
      for (std::size_t i = 0; i < outputs->size(); ++i) {
        values_[partition.outputs[i]].push_back(std::move((*outputs)[i]));
      }
    }
    return {};
  }

  Status check(const plan::Partition& partition) {
    for (const auto& batched : partition.batched) {
      if (Status same = compare_with_single(partition, batched); !same) {
        return std::move(same).error().within({Where::kModel, batched.model});
      }
    }
    return {};
  }

  /// A stage with a batch, or one before.
  [[nodiscard]] bool needed(const plan::Stage& stage) const {
    const auto at = &stage - plan_.stages.data();
    return std::any_of(plan_.stages.begin() + at, plan_.stages.end(),
                       [](const plan::Stage& later) { return later.batch.frames > 1; });
  }

  Status compare_with_single(const plan::Partition& partition, const plan::BatchedModel& batched) {
    PENSTOCK_TRY(auto model, compile(partition, batched.model));
    PENSTOCK_TRY(const auto inputs, inputs_of(partition, 0, batched.frames));
    PENSTOCK_TRY(const auto outputs, call(model, inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& name = partition.outputs[i];
      const auto compared = compare(outputs[i], join_frames(values_[name], batched.frames));
      if (compared.ok()) continue;
      return make_error(Code::kFailedPrecondition, batched.frames,
                        " frames in one call give something else than one by one: ",
                        to_string(compared), "; leave the stage out of the batch (STAGE=1)")
          .within({Where::kOutput, name});
    }
    return {};
  }

  const plan::Plan& plan_;
  const fs::path folder_;
  const backend::Registry& backends_;
  Random random_{1};
  bool other_sizes_ = false;
  std::map<std::string, Tensor> parameters_;
  FrameValues given_;  // Of inputs.
  FrameValues values_;
  std::set<std::string> drawn_;  // Those of `values_` that are random.
  std::optional<std::size_t> refused_frame_;
};

}  // namespace

Tensor join_frames(const std::vector<Tensor>& frames, int count) {
  auto dims = frames.front().dims();
  dims.front() *= count;
  Tensor joined = Tensor::allocate(frames.front().dtype(), std::move(dims));
  auto* to = static_cast<std::byte*>(joined.data());
  for (int i = 0; i < count; ++i) {
    const auto& frame = frames[static_cast<std::size_t>(i) % frames.size()];
    // A tensor without elements may have no memory.
    if (frame.bytes() > 0) std::memcpy(to, frame.data(), frame.bytes());
    to += frame.bytes();
  }
  return joined;
}

Result<FrameValues> check_batches(const plan::Plan& plan, const fs::path& folder,
                                  const backend::Registry& backends,
                                  const std::vector<frames::Frame>* frames) {
  const auto has_batch = [](const plan::Stage& stage) { return stage.batch.frames > 1; };
  if (std::ranges::none_of(plan.stages, has_batch)) return FrameValues();
  return BatchCheck(plan, folder, backends, frames).run();
}

}  // namespace penstock
