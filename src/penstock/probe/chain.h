// Models run one after the other on the calling thread or a device, over inputs made before.
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

/// Use on one thread, which is pinned already. On a device with memory of its own inputs and
/// outputs lie there, and an engine that computes by itself has several lanes: a frame in progress
/// in each.
class Chain {
 public:
  /// Compiles the job's models for its device, else for `cpus`.
  /// \error as Backend::compile(), the model named
  static Result<std::unique_ptr<Chain>> compile(const backend::Registry& backends,
                                                const cost::Job& job, const std::vector<int>& cpus);
  ~Chain();
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  /// The values of the inputs for one seed; the same in every chain with inputs of these names.
  Status use_seed(std::uint64_t seed);
  /// A ring of inputs in memory of their own, more of it than `cache_bytes`, but no more than 16.
  /// Runs once, and gives every output whose shape is known a buffer that later runs write into.
  Status bind(std::uint64_t cache_bytes);
  /// One frame over the ring's next inputs, to its end. \error as Context::run(), the model named
  Status run();
  /// A frame in each lane, in their order: waits for the one before there, and leaves this one in
  /// progress. With one lane as run().
  Status run_all_lanes();
  [[nodiscard]] std::size_t lanes() const { return links_.front()->lanes.size(); }

  /// All outputs of all models after run(), in their order, in the host's memory.
  [[nodiscard]] Result<std::vector<std::pair<std::string, Tensor>>> outputs() const;

 private:
  struct Lane {
    std::unique_ptr<backend::Context> context;
    std::vector<Tensor> values;  // Its outputs.
    std::vector<Tensor*> outputs;
    std::vector<std::size_t> unbound;  // Outputs that are the engine's.
    bool busy = false;                 // A run is in progress.
  };
  struct Link {
    std::string name;
    std::unique_ptr<backend::Executable> executable;
    std::vector<Lane> lanes;                         // Several: of a chain of one link.
    std::vector<std::vector<const Tensor*>> inputs;  // By frame of the ring.
  };
  using Frame = std::map<std::string, Tensor>;

  explicit Chain(const cost::Job& job) : job_(job) {}
  Status add_link(const backend::Registry& backends, const cost::JobModel& model,
                  const std::vector<int>& cpus);
  Status add_lanes(Link& link);
  [[nodiscard]] Result<Tensor> value_of(const backend::Port& port, std::uint64_t seed) const;
  [[nodiscard]] Result<Frame> make_frame(std::uint64_t seed) const;
  [[nodiscard]] Result<Tensor> brought(const Tensor& value) const;
  Status connect();
  Status reserve_outputs(Link& link) const;
  void keep_buffers();
  [[nodiscard]] const Tensor* find_made(const std::string& name, std::size_t before) const;
  static Status start(Link& link, Lane& lane, std::size_t frame);
  static Status finish(Link& link, Lane& lane);
  Status finish_all();
  std::size_t next_frame();

  const cost::Job& job_;
  std::shared_ptr<backend::Memory> memory_;  // Null: the host's.
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Frame> ring_;
  std::size_t next_ = 0;
};

}  // namespace penstock::probe
