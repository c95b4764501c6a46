// DnnConvolution: one convolution by cuDNN, its algorithm chosen by timing.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "expression.h"
#include "gpu.h"

namespace penstock::cuda {

/// [batch, channels, ...] each, of f32, dense; two or three spatial dimensions. The same pads at
/// both ends.
struct ConvolutionForm {
  Dims in, weights, out;
  Dims pads, strides, dilations;
  std::int64_t groups = 1;
  bool bias = false;  ///< What follows it where it is fused: relu(... + residual + bias).
  bool residual = false;
  bool relu = false;
  bool tf32 = false;
};

class DnnConvolution {
 public:
  /// \error kUnimplemented  none of cuDNN's algorithms runs here.
  static Result<std::shared_ptr<DnnConvolution>> create(Gpu& gpu, const ConvolutionForm& form,
                                                        bool fused);

  /// Of one run, as it was measured.
  [[nodiscard]] float ms() const { return choice_.ms; }
  [[nodiscard]] std::size_t workspace_bytes() const { return choice_.workspace_bytes; }

  struct Pointers {
    DevicePointer in, weights, bias, residual, out, workspace;
  };
  /// \pre the caller holds Gpu::mutex
  Status enqueue(const Pointers& pointers, Stream stream);

 private:
  struct Choice {
    int algorithm = 0;
    std::size_t workspace_bytes = 0;
    float ms = 0;
  };

  DnnConvolution(Gpu& gpu, const ConvolutionForm& form, bool fused, Gpu::Convolutions library)
      : gpu_(&gpu), form_(form), fused_(fused), library_(library) {}
  Status describe();
  Status choose();
  [[nodiscard]] bool is_exact(int algorithm) const;
  Result<std::optional<Choice>> time_algorithms();
  Result<std::shared_ptr<void>> tensor(const Dims& dims);
  [[nodiscard]] std::string question() const;

  Gpu* gpu_;
  ConvolutionForm form_;
  bool fused_;
  Gpu::Convolutions library_;
  std::shared_ptr<void> in_, weights_, out_, bias_, convolution_, activation_;
  Choice choice_;
};

}  // namespace penstock::cuda
