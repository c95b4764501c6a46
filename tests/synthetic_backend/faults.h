// What a synthetic backend does when it is told to go wrong.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/tensor/tensor.h"
#include "tests/synthetic_backend/settings.h"

namespace penstock::synthetic {

/// The faults of one moment (compile or run) that `model` has a node for.
class Faults {
 public:
  Faults() = default;
  Faults(const Settings& settings, const graph::Graph& model, bool at_compile);

  /// The `time`-th time, from 0: does what the faults say, and may not return.
  /// \error kUnimplemented  kRefuse, with the operator.
  [[nodiscard]] Status commit(std::int64_t time) const;
  /// What makes outputs wrong, the `time`-th time. `past`: the right outputs of the calls before
  /// in this context, the last one at the end; these are added.
  using Past = std::vector<std::vector<Tensor>>;
  void spoil(std::int64_t time, std::span<Tensor* const> outputs, Past& past) const;

 private:
  struct Met {
    Fault fault;
    std::string op;
  };
  std::vector<Met> met_;
};

}  // namespace penstock::synthetic
