// A server's model as a pipeline of its own.
#pragma once

#include <memory>

#include "penstock/app/app.h"
#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/plan.h"

namespace penstock::app {

/// A plan of that one model, without files, whose inputs and outputs are the model's, by their
/// names. The server is asked for them; where `model.model.name` is empty, for the only model that
/// it has. `model.options` are not in the plan: they may name files.
/// \error kUnavailable  no server is there. \error kNotFound  it has no such model, or none.
/// \error kInvalidArgument  it has several, and none is named: names them.
/// \error kFailedPrecondition  the model keeps states from request to request, or is decoupled.
Result<plan::Plan> plan_of_served(const ServedNode& model, const backend::Registry& backends);

/// The running pipeline of it: what is pushed goes to the server and comes back, several frames at
/// a time. \error  as plan_of_served(), and what pipeline::Pipeline::start() says.
Result<std::unique_ptr<pipeline::Pipeline>> connect(const ServedNode& model,
                                                    const backend::Registry& backends,
                                                    pipeline::Options options = {});

}  // namespace penstock::app
