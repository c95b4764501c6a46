// Part: what is compiled and timed as one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/device/device.h"
#include "penstock/graph/subgraph.h"

namespace penstock::cost {

/// One model of a part: nodes of an imported graph, or a file as it is.
struct PartModel {
  std::string name;                         ///< For people: "stage 'head'", "nodes 3-17".
  std::optional<graph::Subgraph> subgraph;  ///< Its graph outlives the profiler.
  std::filesystem::path file;               ///< Where there is no subgraph.
  std::string backend;
  backend::Precision precision = backend::Precision::kF32;
  std::map<std::string, std::string> options;  ///< The engine's own.
};

/// What is measured as one: its models run one after the other on one thread, as a stage does, and
/// hand tensors on by name.
struct Part {
  std::vector<PartModel> models;
  device::Device device;  ///< Of this machine: CPUs, or one with memory of its own ("cuda:0").
  int threads = 1;
  bool flush_denormals = false;
  /// Where further instances run without pause meanwhile, each with as many threads. None: alone.
  std::vector<device::Device> neighbours;
  std::vector<std::filesystem::path> custom_ops;
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< Of files' open inputs.
  /// A file (.npy) with the values of that input; of others, as of the profiler's activations.
  std::map<std::string, std::filesystem::path> values;
};

/// Its models, for people: "nodes 0-3 + nodes 4-9".
std::string name_of(const Part& part);

/// The type as a run binds it: open dimensions as Dim::likely() says.
Type bound(Type type);

}  // namespace penstock::cost
