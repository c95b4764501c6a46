// Feed: what the user gives for a frame, as the pipeline's inputs.
#pragma once

#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "penstock/plan/package.h"
#include "penstock/tensor/tensor.h"

namespace penstock::python {

namespace nb = nanobind;

/// Of one pipeline; what replaces its plan has inputs of the same names. Under the GIL.
class Feed {
 public:
  /// \raises where the package's values of bound inputs cannot be read.
  explicit Feed(const plan::Package& package);

  /// `feed`: a dict by name, a list or tuple in the order of `inputs`, or the one input itself.
  /// \raises InvalidArgument, which names the input.
  [[nodiscard]] std::vector<Tensor> tensors_of(nb::handle feed,
                                               const std::vector<plan::TensorInfo>& inputs) const;

 private:
  /// Raises InvalidArgument where a dict has another value for a bound input.
  void check_bound_in(nb::handle feed) const;
  /// The first key of a dict that names no input, as Python shows it; empty: there is none.
  [[nodiscard]] std::string unknown_in(nb::handle feed) const;

  std::vector<nb::object> names_;  // Of the inputs, as Python's strings.
  plan::BoundValues bound_;
};

}  // namespace penstock::python
