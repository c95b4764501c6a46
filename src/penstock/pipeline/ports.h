// Ports: how the inputs and outputs of a stage's compiled models are joined to the stage.
// They are joined to its edges, states, parameters and locals.
#pragma once

#include "penstock/pipeline/stage.h"

namespace penstock::pipeline {

/// Whether a later instance's model is wired like the first one's. \error kInvalidArgument
Status check_same_ports(const CompiledPartition& partition, const backend::Executable& executable,
                        const device::Device& place);

/// Finds where else each state that the stage writes is written: as an edge's tensor, say.
void find_state_sources(const plan::Plan& plan, Stage& stage);

/// Joins the ports of a partition, once it is compiled, by their names in the plan. What neither an
/// edge nor a state takes becomes one of the stage's locals.
/// \error kInvalidArgument  the model reads what nothing brings, or plan and model give a tensor
///                          different types.
Status join_ports(const plan::Plan& plan, Stage& stage, CompiledPartition& partition,
                  const backend::Executable& executable);

/// Whether what a backend made of output `i` is of the type. \error kInternal  it is not.
Status check_output(const CompiledPartition& partition, std::size_t i, const Type& type,
                    const Tensor& value);

/// Whether it lies in the memory in which the backend is to write; null: the host's.
/// \error kInternal  it lies in the host's, where that is another.
Status check_place(const CompiledPartition& partition, std::size_t i, const backend::Memory* memory,
                   const Tensor& value);

/// Whether the caller's tensor may stand where `type` is declared: check_matches(), and it lies in
/// the host's memory. \error kInvalidArgument
Status check_given(const Type& type, const Tensor& value);

}  // namespace penstock::pipeline
