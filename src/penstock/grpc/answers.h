// What the server tells of itself and its models, as messages.
#pragma once

#include "penstock/grpc/inference.pb.h"
#include "penstock/serve/model.h"
#include "penstock/serve/server.h"
#include "penstock/serve/statistics.h"

namespace penstock::grpc {

void answer(inference::ServerMetadataResponse& response);
void answer(const serve::ModelDescription& model, inference::ModelMetadataResponse& response);
void answer(const serve::ModelDescription& model, inference::ModelConfig& config);
void answer(const serve::ModelStatistics& statistics, inference::ModelStatistics& response);
void answer(const serve::IndexEntry& entry, inference::RepositoryIndexResponse::ModelIndex& index);
void answer(inference::TraceSettingResponse& response);
void answer(inference::LogSettingsResponse& response);

/// \error kInvalidArgument  an unknown parameter, or one of the wrong kind.
Result<serve::LoadOptions> read_load(inference::RepositoryModelLoadRequest request);

}  // namespace penstock::grpc
