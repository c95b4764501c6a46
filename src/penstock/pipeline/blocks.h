// Blocks: the storage of an edge's slots in one memory, several of them in one allocation.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "penstock/pipeline/memory.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

/// Of each tensor of the edge the slots lie one behind the other: in the host's memory each from
/// its own cache line on, in blocks of at most 1 MiB. `together`: where a shape is fixed, without a
/// gap, as rows of one tensor; but in a memory that reaches the host's, whose runs take one frame
/// each. Other tensors of other memories have an allocation each.
class Blocks {
 public:
  /// `places`: how many slots there will be. `types` is the caller's, and stays.
  Blocks(backend::Memory* memory, std::span<const Type> types, std::size_t places, bool together);

  /// Adds to `slot` a tensor for each type; one without storage where nothing bounds its shape.
  /// \pre  called for each place from 0 on, ascending. \error  of the memory that gives none.
  Status add(std::size_t at, std::vector<Tensor>& slot);

 private:
  struct Block {
    std::size_t stride = 0;
    std::size_t slots = 0;  // That have room in it; 0: each has storage of its own, or none.
    std::shared_ptr<void> pages;
    Tensor rows;  // In another memory, in place of pages.
  };
  [[nodiscard]] Block plan_block(const Type& type, bool together) const;
  Result<Tensor> next_of(Block& block, const Type& type, std::size_t at) const;

  backend::Memory* memory_;
  std::span<const Type> types_;
  std::size_t places_;
  std::vector<Block> blocks_;  // Beside `types_`; the latest of each.
};

}  // namespace penstock::pipeline
