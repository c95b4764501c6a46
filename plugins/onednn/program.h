// Program: a compiled model, primitives in order over numbered buffers. Shared by its contexts.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine.h"
#include "layout.h"
#include "penstock/backend/backend.h"

namespace penstock::onednn {

/// Memory that a program works on.
struct Buffer {
  enum class Kind {
    kArena,     ///< Of a context, at `offset` of its arena.
    kInput,     ///< The caller's, of input `index`.
    kOutput,    ///< The caller's, of output `index`.
    kConstant,  ///< Of the program: constants[index].
  };
  Kind kind = Kind::kArena;
  std::size_t bytes = 0;
  std::size_t index = 0;
  std::size_t offset = 0;
};

/// Where a tensor lies.
struct Place {
  std::size_t buffer = 0;
  std::size_t offset = 0;  ///< Bytes from the buffer's begin.
  Layout layout;
};

using Primitive = std::shared_ptr<dnnl_primitive>;

/// What the library has no primitive for, computed by this plugin on the caller's thread.
/// `data`: the begin of each argument's place. Used by several contexts at once: it has no state.
using Kernel = std::function<Status(std::span<std::byte* const> data)>;

struct Argument {
  int name = 0;  ///< DNNL_ARG_...
  Place place;
};

struct Step {
  Primitive primitive;  ///< Null: the kernel.
  std::vector<Argument> arguments;
  std::size_t scratch_bytes = 0;
  Kernel kernel;
};

struct Program {
  std::shared_ptr<const Engine> engine;
  std::vector<backend::Port> inputs, outputs;
  std::vector<Buffer> buffers;
  std::vector<Tensor> constants;  ///< Weights in the layouts that their primitives want.
  std::vector<Step> steps;
  std::size_t arena_bytes = 0, scratch_bytes = 0;
  int threads = 1;
};

/// Gives the arena's buffers their offsets: those in use at the same step do not overlap.
void plan_arena(Program& program);

/// \error as Engine::check()
Result<std::unique_ptr<backend::Context>> create_context(std::shared_ptr<const Program> program);

}  // namespace penstock::onednn
