// What the server tells of itself and its models, as the protocol's JSON.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/http/message.h"
#include "penstock/serve/model.h"
#include "penstock/serve/server.h"
#include "penstock/serve/shared_memory.h"
#include "penstock/serve/statistics.h"

namespace penstock::rest {

/// The HTTP status that a code becomes.
int status_of(Code code);
/// `{"error": ...}` with the code's status, and the headers that go with it.
http::Response response_of(const Error& error);

std::string server_metadata();
/// Of one that is ready.
std::string model_ready(const std::string& model);
std::string model_metadata(const serve::ModelDescription& model);
std::string model_config(const serve::ModelDescription& model);
std::string statistics_json(const std::vector<serve::ModelStatistics>& models);
std::string index_json(const std::vector<serve::IndexEntry>& entries);
std::string regions_json(const std::vector<serve::RegionInfo>& regions);
std::string trace_settings();
std::string log_settings();

/// \error kInvalidArgument  not such an object, an unknown parameter, files that are not base64.
Result<serve::LoadOptions> read_load(const http::Body& body);
/// Whether only models that are ready are asked for.
Result<bool> read_index(const http::Body& body);
Result<serve::RegionInfo> read_region(const http::Body& body, std::string name);

}  // namespace penstock::rest
