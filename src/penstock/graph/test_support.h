// What the tests of graph share.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/graph/import.h"
#include "penstock/graph/onnx_text.h"
#include "penstock/graph/subgraph.h"
#include "penstock/graph/writer.h"
#include "tests/support/temporary_folder.h"

namespace penstock::graph {

inline std::string bytes_of_text(const std::string& text) {
  auto bytes = onnx_bytes_of_text(text);
  if (bytes) return *std::move(bytes);
  ADD_FAILURE() << bytes.error().message();
  return {};
}

inline Graph import_text(const std::string& text, const ImportOptions& options = {}) {
  auto graph = import_onnx_bytes(bytes_of_text(text), {}, options);
  if (graph) return *std::move(graph);
  ADD_FAILURE() << graph.error().message();
  return {};
}

inline Graph import_file(const std::filesystem::path& file) {
  auto graph = import_onnx(file, {});
  if (graph) return *std::move(graph);
  ADD_FAILURE() << graph.error().message();
  return {};
}

inline Error error_of_text(const std::string& text, const ImportOptions& options = {}) {
  auto graph = import_onnx_bytes(bytes_of_text(text), {}, options);
  if (!graph) return graph.error();
  ADD_FAILURE() << "expected an error, found a graph";
  return {};
}

inline std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  ops.reserve(graph.nodes.size());
  for (const auto& node : graph.nodes) ops.push_back(node.op);
  return ops;
}

template <typename Ids>
std::vector<std::string> names_of(const Graph& graph, const Ids& ids) {
  std::vector<std::string> names;
  names.reserve(std::size(ids));
  for (const auto id : ids) names.push_back(graph.value(id).name);
  return names;
}

inline std::string type_text(const Graph& graph, const std::string& value) {
  const auto id = graph.find_value(value);
  return id ? to_string(graph.value(*id).type) : "absent";
}

}  // namespace penstock::graph
