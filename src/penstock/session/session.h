// The straight road: a model file -> a graph -> a package -> a running pipeline.
// The command line and the Python package are thin over it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/base/version.h"
#include "penstock/graph/graph.h"
#include "penstock/graph/import.h"
#include "penstock/partition/split.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/bound.h"
#include "penstock/plan/package.h"
#include "penstock/plan/stream_options.h"
#include "penstock/session/batch_choice.h"

namespace penstock {

/// What evaluates constants and infers the types of operators that ONNX does not know: the
/// onnxruntime backend, or nothing where it is not available (then less is folded and known).
/// `custom_ops`: libraries of operators that the engine does not have itself.
/// \error kInvalidArgument, kNotFound  one of them does not load.
Result<graph::Engine> make_engine(const backend::Registry& backends,
                                  const std::vector<std::filesystem::path>& custom_ops = {});

/// graph::import_onnx() with make_engine(); an engine given in `options` is kept. \error as both.
Result<graph::Graph> import_model(const std::filesystem::path& file, graph::ImportOptions options,
                                  const backend::Registry& backends,
                                  const std::vector<std::filesystem::path>& custom_ops = {});

/// What a frame of the network holds; where it has states, without those that it reads.
std::vector<plan::TensorInfo> inputs_of(const graph::Graph& graph);
std::vector<plan::TensorInfo> inputs_of(const graph::Graph& graph,
                                        const std::vector<plan::StateEdge>& states);

/// This Penstock, this CPU, the versions of the engines behind `names`, and the model's file.
plan::Origin make_origin(const graph::Graph& graph, const backend::Registry& backends,
                         const std::set<std::string>& names);

/// The file that a package was made from, as it was named then or else beside the package at
/// `path`; empty if it is not there or has changed.
std::filesystem::path find_model(const plan::Origin& origin, const std::filesystem::path& path);

/// Whether a file is an ONNX model, by its outer structure; what it seems to be, where it is none.
/// \error kNotFound, kDataLoss
Status check_model(const std::filesystem::path& file);

/// Whether a model is the one that a plan was made from.
enum class Match { kSame, kOther, kUnknown };

/// By its bytes, else by the canonical hash of its graph, imported as the plan says. kUnknown: it
/// may have been imported otherwise (by another engine or version), or cannot be imported.
Match match_model(const std::filesystem::path& file, const plan::Package& package,
                  const backend::Registry& backends);

/// A model file that was made for a while.
struct ModelFile {
  std::filesystem::path file;
  std::shared_ptr<const void> files;  ///< They are removed with the last reference.
};

/// The model as it is, but that its inputs of `bound` are constants; where there are none, the file
/// itself, unless engines refuse that for what an import mends. \error as import_model() and
/// graph::write_onnx(). `weights`: as in WriteOptions.
Result<ModelFile> bind_model(const std::filesystem::path& file, const plan::BoundValues& bound,
                             const backend::Registry& backends,
                             const std::vector<std::filesystem::path>& custom_ops = {},
                             const graph::WeightStore* weights = nullptr);

/// partition::split() with make_origin(), choose_batches() and check_batches(), then `stream` and
/// `states`: outputs that are inputs of the next frame; `initial` is an .npy file anywhere, or
/// empty. With several streams the stages that write a state may have several replicas.
/// \returns the plan as written. Who wants to know what is chosen calls choose_batches() before.
/// \error as all four, as plan::add_state(), as check_states_are_tensors(), and as
/// backend::check_settings() of its backends' options.
Result<plan::Plan> split_model(const graph::Graph& graph, partition::SplitOptions options,
                               const plan::StreamOptions& stream,
                               const std::filesystem::path& target,
                               const backend::Registry& backends,
                               const std::vector<plan::StateEdge>& states = {});

/// Writes a package once more, to a folder or zip of its own: the files that its plan lists.
/// \returns the plan as written. \error those of plan::PackageWriter
Result<plan::Plan> copy_package(const plan::Package& package, const std::filesystem::path& target);

/// A model of the package's own stages, joined again.
/// \error as join_stages() and graph::write_onnx()
Result<ModelFile> write_joined(const plan::Package& package);

/// A package, and its pipeline once started. Everything it needs on disk lives as long as it does.
struct Opened {
  plan::Package package;
  std::unique_ptr<pipeline::Pipeline> pipeline;
  std::filesystem::path path;  ///< As it was given: of the folder or the zip.
};

/// Loads a package and starts it. \error as load_package() and Pipeline::start().
Result<Opened> open_package(const std::filesystem::path& path, const pipeline::Options& options,
                            const backend::Registry& backends);

/// A model as a package in a temporary folder of its own: by default (no cuts, no devices) the
/// whole network, one replica for each CPU of the inherited cpuset; one in all if it has states.
/// \error as split_model()
Result<plan::Package> pack_model(const graph::Graph& graph, partition::SplitOptions split,
                                 const backend::Registry& backends,
                                 const std::vector<plan::StateEdge>& states = {},
                                 const plan::StreamOptions& stream = {});

/// Why a package cannot be compared with one network: it holds functions or several networks. Empty
/// if it can.
std::string why_no_single_model(const plan::Plan& plan);

}  // namespace penstock
