// Engine: the OpenVINO that was found, its C functions, and its errors as ours.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <openvino/c/openvino.h>

#include "penstock/base/result.h"
#include "penstock/tensor/dtype.h"

namespace penstock::openvino {

/// Every function of OpenVINO's C API that this plugin calls: `use(name)` for each.
#define PENSTOCK_OPENVINO_FUNCTIONS(use)          \
  use(ov_compiled_model_create_infer_request);    \
  use(ov_compiled_model_free);                    \
  use(ov_compiled_model_get_property);            \
  use(ov_compiled_model_input_by_index);          \
  use(ov_compiled_model_input_by_name);           \
  use(ov_compiled_model_inputs_size);             \
  use(ov_compiled_model_output_by_index);         \
  use(ov_compiled_model_outputs_size);            \
  use(ov_core_compile_model_props);               \
  use(ov_core_create);                            \
  use(ov_core_get_property);                      \
  use(ov_core_read_model);                        \
  use(ov_core_read_model_from_memory_buffer);     \
  use(ov_free);                                   \
  use(ov_get_last_err_msg);                       \
  use(ov_get_openvino_version);                   \
  use(ov_infer_request_cancel);                   \
  use(ov_infer_request_free);                     \
  use(ov_infer_request_get_tensor_by_const_port); \
  use(ov_infer_request_infer);                    \
  use(ov_infer_request_set_tensor_by_const_port); \
  use(ov_infer_request_start_async);              \
  use(ov_infer_request_wait);                     \
  use(ov_infer_request_wait_for);                 \
  use(ov_model_free);                             \
  use(ov_output_const_port_free);                 \
  use(ov_partial_shape_free);                     \
  use(ov_port_get_element_type);                  \
  use(ov_port_get_partial_shape);                 \
  use(ov_shape_free);                             \
  use(ov_tensor_create_from_host_ptr);            \
  use(ov_tensor_data);                            \
  use(ov_tensor_free);                            \
  use(ov_tensor_get_shape);                       \
  use(ov_tensor_set_shape);                       \
  use(ov_version_free)

struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares
#define PENSTOCK_DECLARE(name) decltype(&::name) name = nullptr
  PENSTOCK_OPENVINO_FUNCTIONS(PENSTOCK_DECLARE);
#undef PENSTOCK_DECLARE
};

/// Owns one of OpenVINO's objects.
template <typename T>
struct Releaser {
  void (*release)(T*) = nullptr;
  void operator()(T* object) const { release(object); }
};
template <typename T>
using Handle = std::unique_ptr<T, Releaser<T>>;

/// A loaded OpenVINO. Never unloaded: its threads may outlive every caller.
struct Engine {
  Api api;
  ov_core_t* core = nullptr;   ///< Never freed.
  std::filesystem::path file;  ///< The library that was taken.
  std::string version;         ///< "2026.4.1"

  /// The error holds the text of OpenVINO's last failure in the process: where two threads fail at
  /// the same moment, they may tell of each other's.
  [[nodiscard]] Status check(ov_status_e status) const;
};

/// Finds and loads it. \error kUnavailable  every place tried, and what to do.
Result<std::shared_ptr<const Engine>> load_engine();

/// kUndefined for types that no Tensor of ours holds in the same way.
DType from_engine(ov_element_type_e type);
ov_element_type_e to_engine(DType dtype);

/// OpenVINO's code and text as an Error: its reason only, without source locations.
Error translate(ov_status_e status, std::string_view text);

}  // namespace penstock::openvino
