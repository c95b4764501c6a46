// A function called by itself, outside of any pipeline.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/function/function.h"

namespace penstock::ready {

/// One replica of a function, checked as in a pipeline: types before and after each call. It keeps
/// what the function keeps from call to call. One thread at a time.
class Caller {
 public:
  /// Creates the replica. \error  what the function's create() says.
  static Result<Caller> make(function::Function function);

  [[nodiscard]] std::span<const backend::Port> inputs() const { return executable_->inputs(); }
  [[nodiscard]] std::span<const backend::Port> outputs() const { return executable_->outputs(); }

  /// Outputs in storage of their own. \pre  as many inputs as inputs() says.
  /// \error kInvalidArgument  an input of another type: names it. kAborted: it dropped the frame.
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs);

 private:
  std::unique_ptr<backend::Executable> executable_;
  std::unique_ptr<backend::Context> context_;
};

}  // namespace penstock::ready
