// Functions as stages: what is no part of a network, behind the interface of a backend.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::function {

/// In the order of the declared ports, and of their types.
using Inputs = std::span<const Tensor* const>;
/// Each has room for its port's bound: write there, after set_dims() where dimensions are open.
using Outputs = std::span<Tensor* const>;

/// One frame. An Error fails the frame, drop() drops it; an exception fails it with its text.
/// One thread at a time.
using Call = std::function<Status(Inputs, Outputs)>;

/// From the plan: the partition's options but "function".
using Settings = std::map<std::string, std::string>;

/// What a call returns for a frame that is not worth going on with: it comes out as dropped.
Status drop(std::string_view reason);

/// A function by its name. Open dimensions of outputs need a bound. Those of one symbol must have
/// one size in a call, inputs and outputs: the frame fails where they have not.
struct Function {
  std::string name;
  std::vector<backend::Port> inputs, outputs;
  bool stateful = false;  ///< Sees the frames in order, one at a time; else it may be replicated.
  /// Makes the call of one replica, on the thread that will run it.
  std::function<Result<Call>(const Settings&)> create;
  bool copies_outputs = false;  ///< Its call makes them elsewhere: counted in the statistics.
};

/// For functions that have no settings. \error kInvalidArgument  names the first.
Status refuse_settings(const Settings& settings);

/// Names that begin so are of functions that the library brings itself: "ready/letterbox".
inline constexpr std::string_view kReadyPrefix = "ready/";
/// Makes such a function of its name without the prefix; its settings are built in.
using MakeReady = Result<Function> (*)(std::string_view name, const Settings& settings);

/// A function without settings, whose replicas share one call, which several threads may run at
/// the same time.
Function stateless(std::string name, std::vector<backend::Port> inputs,
                   std::vector<backend::Port> outputs, Call call);

/// The functions of a C library (penstock_function.h), never unloaded, or of a Python module, .py.
/// \error kNotFound            no such file.
/// \error kFailedPrecondition  not a function library, or one of another version: names both.
/// \error kInvalidArgument     what it declares makes no sense. And as load_python_module().
Result<std::vector<Function>> load_library(const std::filesystem::path& file);

/// The function of that name, of the library or, where `library` is empty, among `given`. A
/// library's only one needs no name.
/// \error kNotFound         no such function: names those there are.
/// \error kInvalidArgument  two of that name, or an output without a bound: slots are made for it.
/// And as load_library().
Result<Function> find_function(const std::vector<Function>& given,
                               const std::filesystem::path& library, const std::string& name);

/// Runs functions given at its making, those of libraries unless `native_code` is false, and those
/// that `ready` makes. A request names its function by the option "function", a library by its file
/// (none: given, or ready-made).
class FunctionBackend final : public backend::Backend {
 public:
  explicit FunctionBackend(std::vector<Function> functions, bool native_code = true,
                           MakeReady ready = nullptr);

  [[nodiscard]] backend::Description describe() const override;
  [[nodiscard]] std::string rules() const override;  ///< Takes no part of a network.
  /// \error kPermissionDenied    a library, where native code is not allowed.
  /// \error kInvalidArgument     a stateful function with several replicas, or no call.
  /// And as find_function(), or as `ready` says.
  Result<std::unique_ptr<backend::Executable>> compile(
      const backend::CompileRequest& request) override;

 private:
  [[nodiscard]] Result<Function> find(const backend::CompileRequest& request,
                                      Settings& settings) const;

  std::vector<Function> functions_;
  bool native_code_;
  MakeReady ready_;
};

}  // namespace penstock::function
