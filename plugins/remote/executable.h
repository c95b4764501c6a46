// A model on another machine as an Executable.
#pragma once

#include <memory>

#include "penstock/backend/backend.h"
#include "penstock/grpc/client/remote_model.h"

namespace penstock::remote {

std::unique_ptr<backend::Executable> executable_over(std::unique_ptr<grpc::RemoteModel> model);

}  // namespace penstock::remote
