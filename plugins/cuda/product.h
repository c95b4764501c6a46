// Product: one call of cuBLASLt, its algorithm chosen by timing.
#pragma once

#include <memory>
#include <string>

#include "gpu.h"

namespace penstock::cuda {

/// A matrix in memory, of f32, several of them at equal distances. Rows and columns as the product
/// has them; one of the two strides is 1.
struct Matrix {
  std::int64_t rows = 1, columns = 1;
  std::int64_t row_stride = 1, column_stride = 1;
  std::int64_t batch_stride = 0;
  std::size_t alignment = 256;  ///< Bytes, of the first element.
};

/// result = relu(alpha * a * b + residual + bias): the last three where they are asked for.
struct ProductForm {
  Matrix a, b, result;  ///< The result's columns follow each other; the residual lies as it does.
  std::int64_t batch = 1;
  float alpha = 1;
  bool bias = false;  ///< One for each column of the result.
  bool residual = false;
  bool relu = false;
  bool tf32 = false;
};

class Product {
 public:
  /// \error kUnimplemented  cuBLASLt has nothing for it.
  static Result<std::shared_ptr<Product>> create(Gpu& gpu, const ProductForm& form);

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }

  struct Pointers {
    DevicePointer a, b, bias, residual, result, workspace;
  };
  /// \pre the caller holds Gpu::mutex
  Status enqueue(const Pointers& pointers, Stream stream);

 private:
  struct Choice;

  Product(Gpu& gpu, const ProductForm& form, Gpu::Products library)
      : gpu_(&gpu), form_(form), library_(library) {}
  Status describe();
  Status choose();
  Status time_candidates(std::vector<LtHeuristic>& candidates);
  Result<std::vector<LtHeuristic>> candidates();
  Result<std::shared_ptr<void>> matrix(const Matrix& matrix);
  [[nodiscard]] std::string question() const;

  Gpu* gpu_;
  ProductForm form_;
  Gpu::Products library_;
  std::shared_ptr<void> operation_, first_, second_, result_;
  LtAlgorithm algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

}  // namespace penstock::cuda
