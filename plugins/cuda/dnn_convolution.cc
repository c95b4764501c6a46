// Describes a convolution to cuDNN and times each of its algorithms.
#include "dnn_convolution.h"

#include "tuning.h"

namespace penstock::cuda {
namespace {

// Numbers of cuDNN's documentation.
constexpr int kFloat = 0;
constexpr int kPlainLayout = 0;
constexpr int kCrossCorrelation = 1;
constexpr int kMathDefault = 0;  // On tensor cores, as tf32.
constexpr int kMathFma = 3;
constexpr int kRelu = 1;
constexpr int kIdentity = 5;
constexpr int kAlgorithms = 8;
constexpr int kPrecomputed = 1;  // The one that cuDNN has for a fused identity.
constexpr int kFft = 4;
constexpr int kFftTiling = 5;
constexpr int kWinogradNonfused = 7;

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30U;

std::vector<int> ints(const Dims& dims) {
  return {dims.begin(), dims.end()};
}

std::string text_of(const Dims& dims) {
  std::string text;
  for (const auto dim : dims) text += concat(dim, ",");
  return text + " ";
}

std::size_t bytes_of_floats(const Dims& dims) {
  return static_cast<std::size_t>(count_of(dims)) * sizeof(float);
}

Status check_dnn(int status, std::string_view doing) {
  return check_library(status, "cuDNN", doing);
}

}  // namespace

Result<std::shared_ptr<DnnConvolution>> DnnConvolution::create(Gpu& gpu,
                                                               const ConvolutionForm& form,
                                                               bool fused) {
  PENSTOCK_TRY(const auto library, gpu.convolutions());
  std::shared_ptr<DnnConvolution> made(new DnnConvolution(gpu, form, fused, library));
  PENSTOCK_CHECK_OK(gpu.use());
  const std::scoped_lock lock(gpu.mutex);
  PENSTOCK_CHECK_OK(made->describe());
  PENSTOCK_CHECK_OK(made->choose());
  return made;
}

Result<std::shared_ptr<void>> DnnConvolution::tensor(const Dims& dims) {
  DnnDescriptor made = nullptr;
  PENSTOCK_CHECK_OK(check_dnn(library_.api->create_tensor(&made), "tensor"));
  std::shared_ptr<void> owned(made, library_.api->destroy_tensor);
  const auto sizes = ints(dims);
  const auto strides = ints(contiguous_strides(dims));
  PENSTOCK_CHECK_OK(check_dnn(library_.api->set_tensor(made, kFloat, static_cast<int>(sizes.size()),
                                                       sizes.data(), strides.data()),
                              "tensor"));
  return owned;
}

Status DnnConvolution::describe() {
  const Cudnn& api = *library_.api;
  PENSTOCK_TRY(in_, tensor(form_.in));
  PENSTOCK_TRY(out_, tensor(form_.out));
  Dims channels(form_.out.size(), 1);
  channels[1] = form_.out[1];
  PENSTOCK_TRY(bias_, tensor(channels));
  DnnDescriptor made = nullptr;
  PENSTOCK_CHECK_OK(check_dnn(api.create_filter(&made), "weights"));
  weights_ = {made, api.destroy_filter};
  const auto sizes = ints(form_.weights);
  PENSTOCK_CHECK_OK(check_dnn(
      api.set_filter(made, kFloat, kPlainLayout, static_cast<int>(sizes.size()), sizes.data()),
      "weights"));
  PENSTOCK_CHECK_OK(check_dnn(api.create_activation(&made), "activation"));
  activation_ = {made, api.destroy_activation};
  PENSTOCK_CHECK_OK(
      check_dnn(api.set_activation(made, form_.relu ? kRelu : kIdentity, 1, 0.0), "activation"));
  PENSTOCK_CHECK_OK(check_dnn(api.create_convolution(&made), "convolution"));
  convolution_ = {made, api.destroy_convolution};
  const auto pads = ints(form_.pads);
  PENSTOCK_CHECK_OK(
      check_dnn(api.set_convolution(made, static_cast<int>(pads.size()), pads.data(),
                                    ints(form_.strides).data(), ints(form_.dilations).data(),
                                    kCrossCorrelation, kFloat),
                "convolution"));
  PENSTOCK_CHECK_OK(check_dnn(api.set_groups(made, static_cast<int>(form_.groups)), "groups"));
  return check_dnn(api.set_math(made, form_.tf32 ? kMathDefault : kMathFma), "precision");
}

/// Transforms lose bits of small values beside large ones; Winograd's of 5 x 5 err by 1e-3.
bool DnnConvolution::is_exact(int algorithm) const {
  constexpr std::int64_t kSmall = 3;
  if (algorithm == kFft || algorithm == kFftTiling) return false;
  return algorithm != kWinogradNonfused || form_.weights.back() <= kSmall;
}

std::string DnnConvolution::question() const {
  return concat(gpu_->ordinal(), " ", text_of(form_.in), text_of(form_.weights), text_of(form_.out),
                text_of(form_.pads), text_of(form_.strides), text_of(form_.dilations), form_.groups,
                fused_ ? "f" : "", fused_ && form_.residual ? "r" : "",
                fused_ && form_.relu ? "u" : "", form_.tf32 ? "t" : "");
}

Status DnnConvolution::choose() {
  static Choices<std::optional<Choice>>& choices = *new Choices<std::optional<Choice>>();
  auto made = choices.find(question());
  if (!made) {
    PENSTOCK_TRY(made, time_algorithms());
    choices.keep(question(), *made);
  }
  if (!*made) return make_error(Code::kUnimplemented, "none of cuDNN's algorithms runs here");
  choice_ = **made;
  return {};
}

/// Empty: all are refused.
Result<std::optional<DnnConvolution::Choice>> DnnConvolution::time_algorithms() {
  PENSTOCK_TRY(auto timer, Timer::create(*gpu_));
  Pointers at{};
  PENSTOCK_TRY(at.in, timer.scratch(bytes_of_floats(form_.in)));
  PENSTOCK_TRY(at.weights, timer.scratch(bytes_of_floats(form_.weights)));
  PENSTOCK_TRY(at.out, timer.scratch(bytes_of_floats(form_.out)));
  PENSTOCK_TRY(at.residual, timer.scratch(bytes_of_floats(form_.out)));
  PENSTOCK_TRY(at.bias, timer.scratch(static_cast<std::size_t>(form_.out[1]) * sizeof(float)));
  std::optional<Choice> best;
  for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
    if (fused_ && !form_.relu && algorithm != kPrecomputed) continue;
    if (!is_exact(algorithm)) continue;
    choice_.algorithm = algorithm;
    if (library_.api->workspace(library_.handle, in_.get(), weights_.get(), convolution_.get(),
                                out_.get(), algorithm, &choice_.workspace_bytes) != 0 ||
        choice_.workspace_bytes > kMostWorkspace) {
      continue;
    }
    PENSTOCK_TRY(at.workspace, timer.scratch(choice_.workspace_bytes));
    const auto ms = timer.time([&] { return enqueue(at, timer.stream()); });
    if (!ms && gpu_->is_lost()) return ms.error();
    if (!ms || (best && *ms >= best->ms)) continue;
    best = choice_;
    best->ms = *ms;
  }
  return best;
}

Status DnnConvolution::enqueue(const Pointers& at, Stream stream) {
  const Cudnn& api = *library_.api;
  const auto pointer = [](DevicePointer address) { return reinterpret_cast<void*>(address); };
  PENSTOCK_CHECK_OK(check_dnn(api.set_stream(library_.handle, stream), "stream"));
  const float one = 1;
  const float zero = 0;
  if (!fused_) {
    return check_dnn(api.convolve(library_.handle, &one, in_.get(), pointer(at.in), weights_.get(),
                                  pointer(at.weights), convolution_.get(), choice_.algorithm,
                                  pointer(at.workspace), choice_.workspace_bytes, &zero, out_.get(),
                                  pointer(at.out)),
                     "convolution");
  }
  const float share = form_.residual ? 1 : 0;
  void* const residual = pointer(form_.residual ? at.residual : at.out);
  return check_dnn(
      api.convolve_fused(library_.handle, &one, in_.get(), pointer(at.in), weights_.get(),
                         pointer(at.weights), convolution_.get(), choice_.algorithm,
                         pointer(at.workspace), choice_.workspace_bytes, &share, out_.get(),
                         residual, bias_.get(), pointer(at.bias), activation_.get(), out_.get(),
                         pointer(at.out)),
      "fused convolution");
}

}  // namespace penstock::cuda
