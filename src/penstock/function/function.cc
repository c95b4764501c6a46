// The backend of functions: finds one by name, and checks types and sizes around each call.
#include "penstock/function/function.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <utility>

#include "penstock/base/option_name.h"

namespace penstock::function {
namespace {

constexpr const char* kName = "function";  // Of the backend, and of the option that names one.

std::string names_of(const std::vector<Function>& functions) {
  if (functions.empty()) return "none";
  return join(functions, ", ", [](const auto& f) { return "'" + f.name + "'"; });
}

/// Slots are made for the bound, before the first frame.
Status check_outputs(const Function& function) {
  for (const auto& port : function.outputs) {
    if (port.type.max_bytes()) continue;
    return invalid_argument("output '", port.name,
                            "': expected a type of known rank with a bound for every open "
                            "dimension, found ",
                            port.type)
        .within({Where::kFunction, function.name});
  }
  return {};
}

/// An open dimension of a function's port; ports are counted inputs first.
struct OpenDim {
  std::size_t port, position;
  std::string_view symbol;  // The function's.
};

std::vector<OpenDim> named_dims(const Function& function) {
  std::vector<OpenDim> named;
  std::size_t port = 0;
  for (const auto* ports : {&function.inputs, &function.outputs}) {
    for (const auto& [name, type] : *ports) {
      for (std::size_t i = 0; i < type.dims.size(); ++i) {
        const auto& dim = type.dims[i];
        if (!dim.fixed() && !dim.symbol.empty()) named.push_back({port, i, dim.symbol});
      }
      ++port;
    }
  }
  return named;
}

/// Each dimension whose symbol has come before, behind the first of that symbol.
std::vector<std::pair<OpenDim, OpenDim>> equal_dims(const Function& function) {
  std::vector<std::pair<OpenDim, OpenDim>> pairs;
  const auto named = named_dims(function);
  for (auto dim = named.begin(); dim != named.end(); ++dim) {
    const auto first = std::ranges::find(named, dim->symbol, &OpenDim::symbol);
    if (first != dim) pairs.emplace_back(*first, *dim);
  }
  return pairs;
}

class Context final : public backend::Context {
 public:
  Context(std::shared_ptr<const Function> function, Call call)
      : function_(std::move(function)),
        call_(std::move(call)),
        equal_dims_(function::equal_dims(*function_)) {}

  Status run(const backend::Call&, Inputs inputs, Outputs outputs) override {
    const auto& f = *function_;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (Status fits = check_matches(f.inputs[i].type, *inputs[i]); !fits) {
        return misfit(Where::kInput, f.inputs[i], std::move(fits).error());
      }
    }
    PENSTOCK_CHECK_OK(check_sizes(inputs, outputs, false));
    PENSTOCK_CHECK_OK(called(inputs, outputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (Status fits = check_matches(f.outputs[i].type, *outputs[i]); !fits) {
        return misfit(Where::kOutput, f.outputs[i], std::move(fits).error());
      }
    }
    PENSTOCK_CHECK_OK(check_sizes(inputs, outputs, true));
    if (f.copies_outputs) copies_.fetch_add(outputs.size(), std::memory_order_relaxed);
    return {};
  }

  [[nodiscard]] Counters counters() const override {
    return {.copies = copies_.load(std::memory_order_relaxed), .allocations = 0};
  }

 private:
  Status called(Inputs inputs, Outputs outputs) {
    try {
      return call_(inputs, outputs);
    } catch (const std::bad_alloc&) {
      return out_of_memory().within({Where::kFunction, function_->name});
    } catch (const std::exception& e) {
      return make_error(Code::kUnknown, "exception: ", e.what())
          .within({Where::kFunction, function_->name});
    } catch (...) {
      return make_error(Code::kUnknown, "exception of unknown type")
          .within({Where::kFunction, function_->name});
    }
  }

  /// What one symbol names has one size. Before the call the inputs are known, then the rest.
  [[nodiscard]] Status check_sizes(Inputs inputs, Outputs outputs, bool is_called) const {
    const auto size = [&](const OpenDim& dim) {
      const Tensor& value =
          dim.port < inputs.size() ? *inputs[dim.port] : *outputs[dim.port - inputs.size()];
      return value.dims()[dim.position];
    };
    for (const auto& [first, other] : equal_dims_) {
      const bool is_of_outputs = other.port >= inputs.size();
      if (is_of_outputs != is_called || size(first) == size(other)) continue;
      return invalid_argument("expected one size of '", first.symbol, "', found ", size(first),
                              " in ", name_of(first), " and ", size(other), " in ", name_of(other),
                              "; give dimensions that may differ symbols of their own")
          .within({Where::kFunction, function_->name});
    }
    return {};
  }

  [[nodiscard]] std::string name_of(const OpenDim& dim) const {
    const auto inputs = function_->inputs.size();
    return dim.port < inputs ? "input '" + function_->inputs[dim.port].name + "'"
                             : "output '" + function_->outputs[dim.port - inputs].name + "'";
  }

  [[nodiscard]] Error misfit(Where::Kind kind, const backend::Port& port, Error error) const {
    return std::move(error).within({kind, port.name}).within({Where::kFunction, function_->name});
  }

  std::shared_ptr<const Function> function_;
  Call call_;
  std::vector<std::pair<OpenDim, OpenDim>> equal_dims_;
  std::atomic<std::uint64_t> copies_{0};
};

class Executable final : public backend::Executable {
 public:
  Executable(std::shared_ptr<const Function> function, Settings settings)
      : function_(std::move(function)), settings_(std::move(settings)) {}

  [[nodiscard]] std::span<const backend::Port> inputs() const override { return function_->inputs; }
  [[nodiscard]] std::span<const backend::Port> outputs() const override {
    return function_->outputs;
  }
  Result<std::unique_ptr<backend::Context>> create_context() override {
    auto call = function_->create(settings_);
    if (!call) return std::move(call).error().within({Where::kFunction, function_->name});
    return std::unique_ptr<backend::Context>(
        std::make_unique<Context>(function_, *std::move(call)));
  }

 private:
  std::shared_ptr<const Function> function_;
  Settings settings_;
};

}  // namespace

Status drop(std::string_view reason) {
  return make_error(Code::kAborted, "dropped: ", reason);
}

Status refuse_settings(const Settings& settings) {
  if (settings.empty()) return {};
  return invalid_argument("takes no options, found '", settings.begin()->first,
                          "'; leave it out, or give the function its value where it is made");
}

Function stateless(std::string name, std::vector<backend::Port> inputs,
                   std::vector<backend::Port> outputs, Call call) {
  Function function{std::move(name), std::move(inputs), std::move(outputs), false, {}};
  function.create = [call = std::move(call)](const Settings& settings) -> Result<Call> {
    PENSTOCK_CHECK_OK(refuse_settings(settings));
    return call;
  };
  return function;
}

Result<Function> find_function(const std::vector<Function>& given,
                               const std::filesystem::path& library, const std::string& name) {
  auto candidates = given;
  std::string place;
  if (!library.empty()) {
    PENSTOCK_TRY(candidates, load_library(library));
    place = "function library '" + library.filename().string() + "': ";
  }
  if (std::ranges::count(candidates, name, &Function::name) > 1) {
    return invalid_argument(place, "function '", name,
                            "': is there twice; expected functions of different names");
  }
  auto found = std::ranges::find(candidates, name, &Function::name);
  if (!library.empty() && name.empty() && candidates.size() == 1) found = candidates.begin();
  if (found == candidates.end()) {
    const std::string wanted =
        name.empty() ? "expected 'name', which of its functions" : "no function '" + name + "'";
    return not_found(
        place, wanted, "; there are: ", names_of(candidates),
        library.empty()
            ? concat("; ", in_words_of_caller("the program that runs the pipeline registers them",
                                              "give it by functions=[penstock.Function(name, call, "
                                              "inputs, outputs)]"))
            : "");
  }
  PENSTOCK_CHECK_OK(check_outputs(*found));
  return std::move(*found);
}

FunctionBackend::FunctionBackend(std::vector<Function> functions, bool native_code, MakeReady ready)
    : functions_(std::move(functions)), native_code_(native_code), ready_(ready) {}

/// Takes from `settings` what names the function, and what it has built in.
Result<Function> FunctionBackend::find(const backend::CompileRequest& request,
                                       Settings& settings) const {
  const auto named = settings.extract(kName);
  const auto name = named ? named.mapped() : std::string();
  if (ready_ != nullptr && request.file.empty() && name.starts_with(kReadyPrefix)) {
    return ready_(std::string_view(name).substr(kReadyPrefix.size()), std::exchange(settings, {}));
  }
  return find_function(functions_, request.file, name);
}

backend::Description FunctionBackend::describe() const {
  return {kName, "1", "", "", true};
}

std::string FunctionBackend::rules() const {
  return R"({"version": 1, "rule": {"union": []}})";
}

Result<std::unique_ptr<backend::Executable>> FunctionBackend::compile(
    const backend::CompileRequest& request) {
  if (!request.file.empty() && !native_code_) {
    return make_error(Code::kPermissionDenied, "function library '",
                      request.file.filename().string(), "': native code is not allowed here (",
                      OptionName::kNoNativeCode, ")");
  }
  Settings settings = request.options;
  PENSTOCK_TRY(auto function, find(request, settings));
  if (!function.create)
    return invalid_argument("has no call").within({Where::kFunction, function.name});
  if (function.stateful && request.replicas > 1) {
    return invalid_argument("function '", function.name,
                            "' is stateful and sees the frames in order: expected one replica, "
                            "found ",
                            request.replicas);
  }
  return std::unique_ptr<backend::Executable>(std::make_unique<Executable>(
      std::make_shared<const Function>(std::move(function)), std::move(settings)));
}

}  // namespace penstock::function
