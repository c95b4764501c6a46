// Models run one after the other on the calling thread, over inputs that were made before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/job.h"
#include "penstock/tensor/tensor.h"

namespace penstock::probe {

/// Use on one thread, which is pinned already.
class Chain {
 public:
  /// Compiles the job's models for `cpus`. \error as Backend::compile(), the model named
  static Result<std::unique_ptr<Chain>> compile(const backend::Registry& backends,
                                                const cost::Job& job, const std::vector<int>& cpus);

  /// The values of the inputs for one seed; the same in every chain with inputs of these names.
  Status use_seed(std::uint64_t seed);
  /// A ring of inputs in memory of their own, more of it than `cache_bytes`, but no more than 16.
  /// Runs once, and gives every output whose shape is known a buffer that later runs write into.
  Status bind(std::uint64_t cache_bytes);
  /// One frame over the ring's next inputs. \error as Context::run(), the model named
  Status run();

  /// All outputs of all models after a run, in their order.
  [[nodiscard]] std::vector<std::pair<std::string, const Tensor*>> outputs() const;

 private:
  struct Link {
    std::string name;
    std::unique_ptr<backend::Executable> executable;
    std::unique_ptr<backend::Context> context;
    std::vector<Tensor> values;  // Its outputs.
    std::vector<Tensor*> outputs;
    std::vector<std::size_t> unbound;                // Outputs that are the engine's.
    std::vector<std::vector<const Tensor*>> inputs;  // By frame of the ring.
  };
  using Frame = std::map<std::string, Tensor>;

  explicit Chain(const cost::Job& job) : job_(job) {}
  Status add_link(const backend::Registry& backends, const cost::JobModel& model,
                  const std::vector<int>& cpus);
  [[nodiscard]] Result<Tensor> value_of(const backend::Port& port, std::uint64_t seed) const;
  [[nodiscard]] Result<Frame> make_frame(std::uint64_t seed) const;
  Status connect();
  void keep_buffers();
  [[nodiscard]] const Tensor* find_made(const std::string& name, std::size_t before) const;

  const cost::Job& job_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Frame> ring_;
  std::size_t next_ = 0;
};

}  // namespace penstock::probe
