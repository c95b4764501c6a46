// App: several networks and functions in one pipeline, as a value (docs/composition.md).
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/function/function.h"
#include "penstock/graph/import.h"
#include "penstock/partition/split.h"
#include "penstock/plan/package.h"
#include "penstock/plan/plan.h"

namespace penstock::app {

/// Wherever `place` stands below, it says where the thing was written (file app.yaml, line 12), and
/// leads an error about it; empty for what a program made.

/// What a node reads: an input of the application, or "node.port".
struct Connection {
  std::string port;
  std::string source;
  std::vector<Where> place;
};

/// A model file, split as `penstock split` would; or a package of one network, such as `penstock
/// build` makes, and nothing else said.
struct Network {
  std::filesystem::path model;  ///< Or package.
  graph::ImportOptions import;
  partition::SplitOptions split;  ///< Without devices: one CPU each, dealt over the application.
  /// Seconds, of build_app() alone; none: a share of what there is.
  std::optional<double> build_budget;

  /// Whether nothing is said of how it is split, where and by what it runs.
  [[nodiscard]] bool is_undecided() const;
};

/// A function of a library, one that the program registers, or a ready-made one.
struct FunctionNode {
  /// May be empty if the library holds one only. A ready-made one (penstock/ready/ready.h) is
  /// called "ready/letterbox", and `library` is empty.
  std::string name;
  std::filesystem::path library;  ///< Empty: registered.
  function::Settings options;
  int replicas = 1;
  std::vector<device::Device> devices;  ///< In turn; empty: one CPU each.
};

/// A model that a server of the Open Inference Protocol has; it is asked for its inputs and
/// outputs.
struct ServedNode {
  plan::ServedModel model;
  std::vector<device::Device> devices;  ///< Servers, one for each replica; empty: the model's.
  std::vector<device::Device> standby;  ///< Servers that take its frames over.
  bool idempotent = false;              ///< A frame may be run again by another one.
  int lanes = 0;                        ///< Calls in flight at each; 0: as many as is usual.
  /// Of its inputs and outputs, where the server leaves sizes open.
  std::map<std::string, std::vector<Dim>> shapes;
  std::map<std::string, std::string> options;  ///< Of the backend `remote`.
};

struct Node {
  std::string name;  ///< Unique; letters, digits, '_' and '-'.
  std::variant<Network, FunctionNode, ServedNode> runs;
  std::vector<Connection> inputs;
  std::vector<std::string> each;  ///< Ports whose sources hold items: it runs once for each.
  std::optional<std::chrono::microseconds> max_run;
  std::optional<int> max_left_behind;  ///< As plan::Stage says, of each of its stages.
  std::vector<Where> place;
  std::map<std::string, std::vector<Where>> places;  ///< Of its fields: "devices".
};

struct Input {
  std::string name;
  std::optional<Type> type;  ///< Else that of the first port which reads it.
  std::vector<Where> place;
};

struct Output {
  std::string name;
  std::string source;  ///< "node.port"
  std::vector<Where> place;
};

/// What "node.port" is for one frame, the port `to` reads at the next.
struct State {
  std::string from, to;           ///< "node.port"; `to` has no connection.
  std::filesystem::path initial;  ///< An .npy; empty: zeros.
  std::vector<Where> place;
};

struct App {
  std::string name;
  std::vector<Input> inputs;
  std::vector<Node> nodes;  ///< In any order.
  std::vector<Output> outputs;
  std::vector<State> states;
  plan::Streams streams;
  std::optional<std::chrono::microseconds> max_age;
  plan::OnError on_error = plan::OnError::kDeliver;
  std::vector<Where> place;
};

/// Checks the whole application, and writes it as a package to `target` (a folder or .zip).
/// `functions`: what the program registers, for their declarations.
/// \returns the plan as written.
/// \error kNotFound         a model, library, function, port or source that is not there.
/// \error kInvalidArgument  types that do not agree; a port without a source; a cycle without a
///                          state, named; a name twice. And what split() and the writer say.
Result<plan::Plan> write_package(const App& app, const std::filesystem::path& target,
                                 const backend::Registry& backends,
                                 const std::vector<function::Function>& functions = {});

/// What partition::lanes_left_out() says of the networks' stages, behind the node and its lanes.
/// `plan`: as write_package() gives it.
std::vector<std::string> lanes_left_out(const App& app, const plan::Plan& plan);

/// write_package() into a temporary folder of the package's own.
Result<plan::Package> pack(const App& app, const backend::Registry& backends,
                           const std::vector<function::Function>& functions = {});

/// Refuses libraries of functions or custom operators, those of packages too, before any is opened.
/// \error kPermissionDenied  names the node. And what load_package() says.
Status refuse_native_code(const App& app);

/// The error of a pipeline's start, with the place of the node whose stage it names.
Error place_error(const App& app, Error error);

/// Reads an application from YAML; paths in it are relative to its folder. `folder`, where not
/// empty, is all that they may lead to, links followed: for what somebody sent, who is not told
/// what else this machine has.
/// \error kNotFound         no such file.
/// \error kInvalidArgument  names file and line, what was expected and what was found.
Result<App> read_yaml(const std::filesystem::path& file, const std::filesystem::path& folder = {});

/// "f32[1,3,h<=224,?]", as to_string(Type) writes it. \error kInvalidArgument
Result<Type> parse_type(std::string_view text);

}  // namespace penstock::app
