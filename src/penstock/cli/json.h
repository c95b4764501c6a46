// Values as JSON. The names are the blueprint's.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/pipeline/stats.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::cli {

using Json = nlohmann::ordered_json;

/// Writes it indented. Names that are not UTF-8 are shown with replacement characters.
void print_json(const Json& json, std::FILE* out = stdout);

/// [1, 3, "h", "w<=512"]: open dimensions as texts; null where the rank is not known.
Json shape_json(const Type& type);

/// {"name", "type", "dtype", "shape"}
Json tensor_json(const std::string& name, const Type& type);

/// {"code", "message", "reason", "places": [{"kind": "stage", "name": "head"}, {"kind": "frame",
/// "number": 3}]}; the message is the sentence of the others, for people.
Json error_json(const Error& error);

/// {"p50", "p90", "p99", "max"} in microseconds; nulls where nothing was measured.
Json quantiles_json(const pipeline::Quantiles& quantiles);

Json stages_json(const pipeline::Stats& stats);
Json edges_json(const pipeline::Stats& stats);

/// The ceiling of the edges' memory: null, or "without bound: ...", where there is none.
Json memory_json(std::optional<std::uint64_t> bytes);
std::string memory_text(std::optional<std::uint64_t> size);

/// Stages and edges as tables for people.
std::string stage_table(const pipeline::Stats& stats);
std::string edge_table(const pipeline::Stats& stats);

}  // namespace penstock::cli
