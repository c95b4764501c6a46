// The graph of the model that a library-style backend is asked to compile.
#pragma once

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::lower {

/// Of the request's file, or of its bytes where it names none: imported clean, but without an
/// engine, so that nothing is evaluated and constants are only named as such. \error of the import
Result<graph::Graph> model_of(const backend::CompileRequest& request);

}  // namespace penstock::lower
