// Program: a compiled model, steps in order over numbered buffers. Shared by its contexts.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu.h"
#include "penstock/backend/backend.h"

namespace penstock::cuda {

/// Device memory that a program works on.
struct Buffer {
  enum class Kind {
    kArena,     ///< Of a context; shares its place with buffers that live at other times.
    kInput,     ///< Of a context, a place of its own: input `index` is copied there.
    kOutput,    ///< Likewise: output `index` is copied from there.
    kConstant,  ///< Of the program.
  };
  Kind kind = Kind::kArena;
  std::size_t bytes = 0;
  std::size_t index = 0;
  std::size_t offset = 0;  ///< In the context's memory, or in the program's weights.
};

struct Program;

/// Where and with what a step is put in.
struct Launch {
  Gpu& gpu;
  const Program& program;
  Stream stream;
  DevicePointer memory;     ///< The context's.
  DevicePointer workspace;  ///< Program::workspace_bytes, for the libraries.

  [[nodiscard]] DevicePointer at(std::size_t buffer, std::size_t byte_offset = 0) const;
};

struct Step {
  std::string name;                  ///< For messages: the node's.
  std::vector<std::size_t> buffers;  ///< All that it reads and writes.
  /// Puts it into the stream. It has no state, and waits for nothing.
  std::function<Status(const Launch&)> enqueue;
};

struct Program {
  std::shared_ptr<Gpu> gpu;
  std::vector<backend::Port> inputs, outputs;
  std::vector<std::size_t> input_buffers, output_buffers;
  std::vector<Buffer> buffers;
  std::vector<Tensor> constants;  ///< Until they are in `weights`.
  std::vector<Step> steps;
  DeviceStorage weights;
  std::size_t memory_bytes = 0, weight_bytes = 0, workspace_bytes = 0;
  std::int64_t spin_ns = 0;  ///< How long who waits for a frame may do so awake.
};

/// Gives all buffers their offsets: those of the arena in use at the same step do not overlap.
void plan_memory(Program& program);

/// Brings the constants that some step reads to the device, and lets go of them here.
/// \pre plan_memory()
Status upload_weights(Program& program);

/// \error kResourceExhausted, kUnavailable or kUnknown  as Gpu::check()
Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Program> program);

}  // namespace penstock::cuda
