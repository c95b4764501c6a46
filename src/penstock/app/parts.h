// Part: a node made ready to be put into the application's plan.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "penstock/app/app.h"

namespace penstock::app {

struct NetworkPart {
  std::filesystem::path folder;       ///< Where its files are.
  std::shared_ptr<const void> files;  ///< Keeps the folder.
  std::vector<std::filesystem::path> custom_ops;
};

struct FunctionPart {
  std::filesystem::path library;  ///< Empty: the program registers it.
};

struct ServedPart {};

struct Part {
  const Node* node = nullptr;
  plan::Plan plan;  ///< Of the node alone, with its own names.
  std::variant<NetworkPart, FunctionPart, ServedPart> of;
  bool devices_given = false;
  std::vector<State> states = {};  ///< That a package keeps; its plan has them open.

  [[nodiscard]] const NetworkPart* network() const { return std::get_if<NetworkPart>(&of); }
  [[nodiscard]] const plan::TensorInfo* find_input(std::string_view port) const;
  [[nodiscard]] const plan::TensorInfo* find_output(std::string_view port) const;
};

/// The node, or one of its fields where that has a place of its own: app.yaml, line 12, node
/// 'crop'.
std::vector<Where> place_of(const Node& node, const std::string& field = "");
Error at(const std::vector<Where>& place, Error error);

/// Whether a stage of the application's plan, by its name, is of the node: "net", or "net/0" and
/// on.
bool belongs_to(const std::string& stage, const Node& node);

/// Of the settings for its engine, none may name a place on the disk: an engine would read or write
/// there as soon as the node is compiled. \error kInvalidArgument  names the option, in its place.
Status check_options(const Node& node);

/// Imports and splits a network, looks a function's declaration up, or asks a server for its model.
Result<Part> make_part(const Node& node, const backend::Registry& backends,
                       const std::vector<function::Function>& functions);

}  // namespace penstock::app
