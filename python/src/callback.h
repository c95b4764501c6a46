// Callback: what is called once with the frame that it was pushed with.
#pragma once

#include <cstdint>
#include <memory>

#include <nanobind/nanobind.h>

#include "frame.h"
#include "penstock/pipeline/pipeline.h"

namespace penstock::python {

/// Made and destroyed under the GIL; it may outlive the Pipeline.
class Callback {
 public:
  /// `uncalled`: of the pipeline: one more until this is called or destroyed.
  /// `generation`: of forks.
  Callback(nb::object done, nb::object tag, std::shared_ptr<OutputTypes> outputs,
           std::shared_ptr<std::uint64_t> uncalled, std::uint64_t generation);
  ~Callback() { leave(); }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  /// On the library's thread. Nobody waits for what the callable raises: Python's
  /// sys.unraisablehook is told.
  void call(pipeline::Output output);

  /// Whether this thread is in a callback of the pipeline whose outputs these are.
  static bool runs_here(const OutputTypes* outputs);

 private:
  void call(const nb::object& done, pipeline::Output output);
  void leave();

  nb::object done_, tag_;
  std::shared_ptr<OutputTypes> outputs_;
  std::shared_ptr<std::uint64_t> uncalled_;  // Null once it is called.
  std::uint64_t generation_;
};

}  // namespace penstock::python
