// Engine: the oneDNN library that was found, its functions, and its errors as ours.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <oneapi/dnnl/dnnl.h>

#include "penstock/base/result.h"
#include "workers.h"

namespace penstock::onednn {

// The functions of the C API that this plugin calls, without their prefix "dnnl_".
// clang-format off
#define PENSTOCK_DNNL_FUNCTIONS(X) \
  X(version) X(get_effective_cpu_isa) X(engine_create) X(engine_destroy) X(stream_create) X(stream_destroy) \
  X(stream_wait) X(memory_desc_create_with_strides) X(memory_desc_create_with_tag) \
  X(memory_desc_create_submemory) X(memory_desc_reshape) X(memory_desc_permute_axes) \
  X(memory_desc_clone) X(memory_desc_destroy) X(memory_desc_query) X(memory_desc_equal) \
  X(memory_desc_get_size) X(memory_create) X(memory_set_data_handle) X(memory_destroy) \
  X(primitive_attr_create) X(primitive_attr_destroy) X(primitive_attr_set_scratchpad_mode) \
  X(primitive_attr_set_fpmath_mode) X(primitive_attr_set_post_ops) X(post_ops_create) \
  X(post_ops_destroy) X(post_ops_append_eltwise) X(post_ops_append_binary) \
  X(post_ops_append_sum) X(post_ops_append_prelu) X(primitive_desc_destroy) \
  X(primitive_desc_query) X(primitive_desc_query_md) X(primitive_create) X(primitive_destroy) \
  X(primitive_execute) X(reorder_primitive_desc_create) X(concat_primitive_desc_create) \
  X(binary_primitive_desc_create) X(convolution_forward_primitive_desc_create) \
  X(deconvolution_forward_primitive_desc_create) X(eltwise_forward_primitive_desc_create) \
  X(softmax_forward_primitive_desc_create) X(pooling_forward_primitive_desc_create) \
  X(prelu_forward_primitive_desc_create) X(lrn_forward_primitive_desc_create) \
  X(layer_normalization_forward_primitive_desc_create) X(matmul_primitive_desc_create) \
  X(reduction_primitive_desc_create) X(resampling_forward_primitive_desc_create) \
  X(batch_normalization_forward_primitive_desc_create) X(lstm_forward_primitive_desc_create) \
  X(gru_forward_primitive_desc_create) X(lbr_gru_forward_primitive_desc_create)
// clang-format on

/// The functions by name, as found in the library.
struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares
#define PENSTOCK_DNNL_MEMBER(name) decltype(&dnnl_##name) name = nullptr;
  PENSTOCK_DNNL_FUNCTIONS(PENSTOCK_DNNL_MEMBER)
#undef PENSTOCK_DNNL_MEMBER
};

/// A loaded oneDNN. The library is never unloaded: its threads may outlive every caller.
struct Engine {
  Engine() = default;
  ~Engine() {
    if (cpu != nullptr) api.engine_destroy(cpu);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Api api;
  std::filesystem::path file;   ///< The library that was taken.
  std::string version;          ///< "3.2.0"
  dnnl_engine_t cpu = nullptr;  ///< Owned.
  ThreadRuntime threads;        ///< The OpenMP runtime that the library brought.

  /// \error kUnimplemented, kResourceExhausted or kUnknown  names what was being done.
  [[nodiscard]] Status check(dnnl_status_t status, std::string_view doing) const;
};

/// Finds and loads it. \error kUnavailable  every place tried, and what to do.
Result<std::shared_ptr<const Engine>> load_engine();

}  // namespace penstock::onednn
