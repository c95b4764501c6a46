// cuBLASLt counts columns first: it is asked for the transposed result, b' a', which needs no copy.
#include "product.h"

#include <algorithm>
#include <array>

#include "tuning.h"

namespace penstock::cuda {
namespace {

// Numbers of cuBLASLt's documentation.
constexpr int kCompute32F = 68;
constexpr int kComputeTf32 = 77;
constexpr int kTypeF32 = 0;
constexpr int kTransposeFirst = 3;
constexpr int kTransposeSecond = 4;
constexpr int kEpilogue = 7;
constexpr int kBiasPointer = 8;
constexpr int kBatchCount = 5;
constexpr int kBatchStride = 6;
constexpr int kPreferenceWorkspace = 1;
constexpr int kAlignmentFirst = 5;  // Then of the second, of C and of D.
constexpr std::uint32_t kEpilogueNone = 1;
constexpr std::uint32_t kEpilogueRelu = 2;
constexpr std::uint32_t kEpilogueBias = 4;

constexpr std::uint64_t kWorkspace = std::uint64_t{32} << 20U;
constexpr int kMostCandidates = 8;

bool is_transposed(const Matrix& matrix) {
  return matrix.column_stride != 1;
}

template <typename T>
Status set_attribute(int (*function)(LtDescriptor, int, const void*, std::size_t), void* of,
                     int what, const T& value) {
  return check_library(function(of, what, &value, sizeof(value)), "cuBLASLt", "attribute");
}

std::string text_of(const Matrix& m) {
  return concat(m.rows, "x", m.columns, ":", m.row_stride, ",", m.column_stride, ",",
                m.batch_stride, "@", m.alignment, " ");
}

/// Bytes from the first element to behind the last.
std::size_t extent(const Matrix& m, std::int64_t batch) {
  return static_cast<std::size_t>((m.rows - 1) * m.row_stride + (m.columns - 1) * m.column_stride +
                                  (batch - 1) * m.batch_stride + 1) *
         sizeof(float);
}

}  // namespace

struct Product::Choice {
  LtAlgorithm algorithm;
  std::size_t workspace_bytes;
};

Result<std::shared_ptr<Product>> Product::create(Gpu& gpu, const ProductForm& form) {
  PENSTOCK_TRY(const auto library, gpu.products());
  std::shared_ptr<Product> product(new Product(gpu, form, library));
  PENSTOCK_CHECK_OK(gpu.use());
  const std::scoped_lock lock(gpu.mutex);
  PENSTOCK_CHECK_OK(product->describe());
  PENSTOCK_CHECK_OK(product->choose());
  return product;
}

/// As it lies: where rows follow each other, cuBLASLt sees the transposed matrix.
Result<std::shared_ptr<void>> Product::matrix(const Matrix& matrix) {
  const auto& api = *library_.api;
  const bool columns_first = is_transposed(matrix);
  const auto inner = columns_first ? matrix.rows : matrix.columns;
  const auto outer = columns_first ? matrix.columns : matrix.rows;
  const auto distance = columns_first ? matrix.column_stride : matrix.row_stride;
  LtDescriptor made = nullptr;
  PENSTOCK_CHECK_OK(
      check_library(api.create_matrix(&made, kTypeF32, static_cast<std::uint64_t>(inner),
                                      static_cast<std::uint64_t>(outer), std::max(distance, inner)),
                    "cuBLASLt", "matrix"));
  std::shared_ptr<void> owned(made, api.destroy_matrix);
  PENSTOCK_CHECK_OK(
      set_attribute(api.set_matrix, made, kBatchCount, static_cast<std::int32_t>(form_.batch)));
  PENSTOCK_CHECK_OK(set_attribute(api.set_matrix, made, kBatchStride, matrix.batch_stride));
  return owned;
}

Status Product::describe() {
  const auto& api = *library_.api;
  LtDescriptor made = nullptr;
  PENSTOCK_CHECK_OK(
      check_library(api.create_product(&made, form_.tf32 ? kComputeTf32 : kCompute32F, kTypeF32),
                    "cuBLASLt", "product"));
  operation_ = {made, api.destroy_product};
  const std::int32_t first = is_transposed(form_.b) ? 1 : 0;
  const std::int32_t second = is_transposed(form_.a) ? 1 : 0;
  std::uint32_t epilogue = (form_.relu ? kEpilogueRelu : 0) | (form_.bias ? kEpilogueBias : 0);
  if (epilogue == 0) epilogue = kEpilogueNone;
  PENSTOCK_CHECK_OK(set_attribute(api.set_product, made, kTransposeFirst, first));
  PENSTOCK_CHECK_OK(set_attribute(api.set_product, made, kTransposeSecond, second));
  PENSTOCK_CHECK_OK(set_attribute(api.set_product, made, kEpilogue, epilogue));
  PENSTOCK_TRY(first_, matrix(form_.b));
  PENSTOCK_TRY(second_, matrix(form_.a));
  PENSTOCK_TRY(result_, matrix(form_.result));
  return {};
}

std::string Product::question() const {
  return concat(gpu_->ordinal(), " ", text_of(form_.a), text_of(form_.b), text_of(form_.result),
                form_.batch, form_.bias ? "b" : "", form_.residual ? "r" : "",
                form_.relu ? "u" : "", form_.tf32 ? "t" : "");
}

Status Product::choose() {
  static Choices<Choice>& choices = *new Choices<Choice>();
  if (const auto made = choices.find(question())) {
    algorithm_ = made->algorithm;
    workspace_bytes_ = made->workspace_bytes;
    return {};
  }
  PENSTOCK_TRY(auto found, candidates());
  PENSTOCK_CHECK_OK(time_candidates(found));
  choices.keep(question(), {algorithm_, workspace_bytes_});
  return {};
}

Result<std::vector<LtHeuristic>> Product::candidates() {
  const auto& api = *library_.api;
  LtDescriptor made = nullptr;
  PENSTOCK_CHECK_OK(check_library(api.create_preference(&made), "cuBLASLt", "preference"));
  const std::shared_ptr<void> preference(made, api.destroy_preference);
  PENSTOCK_CHECK_OK(set_attribute(api.set_preference, made, kPreferenceWorkspace, kWorkspace));
  const std::array alignments = {form_.b.alignment, form_.a.alignment, form_.result.alignment,
                                 form_.result.alignment};
  for (std::size_t i = 0; i < alignments.size(); ++i) {
    PENSTOCK_CHECK_OK(set_attribute(api.set_preference, made, kAlignmentFirst + static_cast<int>(i),
                                    static_cast<std::uint32_t>(alignments[i])));
  }
  std::vector<LtHeuristic> found(kMostCandidates);
  int count = 0;
  const int status =
      api.heuristics(library_.handle, operation_.get(), first_.get(), second_.get(), result_.get(),
                     result_.get(), made, kMostCandidates, found.data(), &count);
  if (status != 0 || count == 0) {
    return make_error(Code::kUnimplemented, "cuBLASLt has no way to compute it (status ", status,
                      ")");
  }
  found.resize(static_cast<std::size_t>(count));
  return found;
}

Status Product::time_candidates(std::vector<LtHeuristic>& candidates) {
  PENSTOCK_TRY(auto timer, Timer::create(*gpu_));
  Pointers pointers{};
  PENSTOCK_TRY(pointers.a, timer.scratch(extent(form_.a, form_.batch)));
  PENSTOCK_TRY(pointers.b, timer.scratch(extent(form_.b, form_.batch)));
  PENSTOCK_TRY(pointers.result, timer.scratch(extent(form_.result, form_.batch)));
  PENSTOCK_TRY(pointers.bias,
               timer.scratch(static_cast<std::size_t>(form_.result.columns) * sizeof(float)));
  PENSTOCK_TRY(pointers.workspace, timer.scratch(kWorkspace));
  pointers.residual = pointers.result;
  float best = 0;
  bool any = false;
  for (const LtHeuristic& candidate : candidates) {
    if (candidate.status != 0) continue;
    const LtAlgorithm before = algorithm_;
    const std::size_t bytes_before = workspace_bytes_;
    algorithm_ = candidate.algorithm;
    workspace_bytes_ = candidate.workspace_bytes;
    const auto ms = timer.time([&] { return enqueue(pointers, timer.stream()); });
    if (!ms && gpu_->is_lost()) return ms.error();
    if (ms && (!any || *ms < best)) {
      best = *ms;
      any = true;
      continue;
    }
    algorithm_ = before;
    workspace_bytes_ = bytes_before;
  }
  if (!any) return make_error(Code::kUnimplemented, "none of cuBLASLt's algorithms runs here");
  return {};
}

Status Product::enqueue(const Pointers& pointers, Stream stream) {
  const auto& api = *library_.api;
  const auto pointer = [](DevicePointer at) { return reinterpret_cast<void*>(at); };
  if (form_.bias) {
    PENSTOCK_CHECK_OK(
        set_attribute(api.set_product, operation_.get(), kBiasPointer, pointer(pointers.bias)));
  }
  const float alpha = form_.alpha;
  const float beta = form_.residual ? 1.0F : 0.0F;
  void* const added = pointer(form_.residual ? pointers.residual : pointers.result);
  return check_library(
      api.multiply(library_.handle, operation_.get(), &alpha, pointer(pointers.b), first_.get(),
                   pointer(pointers.a), second_.get(), &beta, added, result_.get(),
                   pointer(pointers.result), result_.get(), &algorithm_,
                   pointer(pointers.workspace), workspace_bytes_, stream),
      "cuBLASLt", "product");
}

}  // namespace penstock::cuda
