// Frame: what came out of the pipeline, as Python holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nanobind/nanobind.h>

#include "penstock/pipeline/frame.h"
#include "penstock/plan/plan.h"

namespace penstock::python {

namespace nb = nanobind;

/// What a pipeline's frames need to know of it after its end.
struct OutputTypes {
  std::vector<plan::TensorInfo> infos;
  std::vector<nb::object> names;  ///< As Python's strings.
  std::vector<bool> shared;       ///< Stages or the caller may still use the memory: copy it.
  std::uint64_t copies = 0;       ///< Made because of that.
};

/// A frame's slot in the pipeline, held by the Frame and by each of its arrays. detach() gives the
/// slot back and keeps the memory: the slot gets new. All under the GIL.
class Lease {
 public:
  Lease(pipeline::Output output, std::uint64_t generation);
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  [[nodiscard]] const Tensor& operator[](std::size_t index) const {
    return index < taken_.size() ? taken_[index] : (*output_)[index];
  }
  void detach();
  [[nodiscard]] bool detached() const { return !output_; }

 private:
  std::optional<pipeline::Output> output_;
  std::vector<Tensor> taken_;
  std::uint64_t generation_;  // Of forks.
};

class Frame {
 public:
  Frame(pipeline::Output output, std::shared_ptr<OutputTypes> outputs, nb::object tag,
        std::uint64_t generation);

  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::uint64_t stream() const { return stream_; }
  [[nodiscard]] const nb::object& tag() const { return tag_; }
  [[nodiscard]] bool ok() const { return outcome_ == pipeline::Outcome::kOk; }
  [[nodiscard]] const char* outcome() const;
  [[nodiscard]] double latency_us() const { return latency_us_; }
  /// None, or the exception that tells why there are no outputs.
  [[nodiscard]] nb::object error() const;
  [[nodiscard]] bool owned() const { return lease_ == nullptr || lease_->detached(); }

  [[nodiscard]] std::size_t size() const { return outputs_->infos.size(); }
  /// \raises the frame's error where it has one.
  nb::object array(std::size_t index);
  nb::list arrays();
  /// By name or position. \raises KeyError, IndexError, or the frame's error.
  nb::object item(nb::handle key);
  [[nodiscard]] std::optional<std::size_t> find(nb::handle name) const;
  [[nodiscard]] nb::list names() const;
  void take();

  [[nodiscard]] const std::shared_ptr<Lease>& lease() const { return lease_; }

 private:
  std::shared_ptr<OutputTypes> outputs_;
  std::shared_ptr<Lease> lease_;  // Null unless ok.
  std::vector<nb::object> arrays_;
  nb::object tag_;
  std::uint64_t number_, stream_;
  pipeline::Outcome outcome_;
  Error error_;
  double latency_us_;
};

void bind_frame(nb::module_& module);

}  // namespace penstock::python
