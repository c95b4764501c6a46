// Function libraries: from the C interface, or a Python module, to Function.
#include <algorithm>
#include <array>
#include <utility>

#include <dlfcn.h>

#include "penstock/base/words.h"
#include "penstock/function/function.h"
#include "penstock/function/interpreter.h"
#include "penstock/function/penstock_function.h"

namespace penstock::function {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMessageBytes = 512;
constexpr std::int32_t kMost = 1024;  // Functions, ports and dimensions: more is a wrong table.

using Message = std::array<char, kMessageBytes>;

/// What the library wrote, which may lack its end.
std::string text_of(const Message& message, std::string_view otherwise) {
  const auto end = std::ranges::find(message, '\0');
  std::string text(message.begin(), end);
  std::ranges::replace(text, '\n', ' ');
  return text.empty() ? std::string(otherwise) : text;
}

Result<const penstock_library*> open_library(const fs::path& file) {
  void* library = dlopen(fs::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return make_error(Code::kFailedPrecondition,
                      "expected a shared library for this machine, found: ", dlerror());
  }
  void* symbol = dlsym(library, "penstock_functions");
  if (symbol == nullptr) {
    return make_error(Code::kFailedPrecondition,
                      "no function penstock_functions in it: expected a library made with "
                      "penstock/function/penstock_function.h");
  }
  const auto* table = reinterpret_cast<const penstock_library* (*)()>(symbol)();
  if (table == nullptr) {
    return make_error(Code::kFailedPrecondition, "penstock_functions() gave nothing");
  }
  // The version first: of another version, nothing else in the table can be read.
  if (table->version != PENSTOCK_FUNCTION_VERSION) {
    return make_error(Code::kFailedPrecondition, "built for version ", table->version,
                      " of the function interface, this Penstock has version ",
                      PENSTOCK_FUNCTION_VERSION, "; rebuild the library with its header");
  }
  return table;
}

Result<backend::Port> port_of(const penstock_port& port) {
  if (port.name == nullptr) return invalid_argument("a port without a name");
  if (port.rank < 0 || port.rank > kMost || (port.rank > 0 && port.dims == nullptr)) {
    return invalid_argument("port '", port.name, "': rank ", port.rank, " makes no sense");
  }
  const auto dtype = static_cast<DType>(port.dtype);
  if (port.dtype < 0 || port.dtype > 255 || bits_of(dtype) == 0) {
    return invalid_argument("port '", port.name, "': element type ", port.dtype,
                            " is none that functions may use");
  }
  std::vector<Dim> dims;
  for (const auto& dim : std::span(port.dims, static_cast<std::size_t>(port.rank))) {
    dims.push_back({std::max(dim.size, Dim::kOpen), dim.symbol == nullptr ? "" : dim.symbol,
                    std::max(dim.bound, Dim::kOpen)});
  }
  return backend::Port{port.name, Type::tensor(dtype, std::move(dims))};
}

Result<std::vector<backend::Port>> ports_of(const penstock_port* ports, std::int32_t count) {
  if (count < 0 || count > kMost || (count > 0 && ports == nullptr)) {
    return invalid_argument("a table of ", count, " ports");
  }
  std::vector<backend::Port> made;
  for (const auto& port : std::span(ports, static_cast<std::size_t>(count))) {
    PENSTOCK_TRY(auto one, port_of(port));
    made.push_back(std::move(one));
  }
  return made;
}

/// One replica: the library's state, and the argument arrays, which every call uses again.
class Replica {
 public:
  Replica(const penstock_function& function, void* state) : function_(function), state_(state) {
    set_up(function.inputs, function.input_count, input_dims_, inputs_);
    set_up(function.outputs, function.output_count, output_dims_, outputs_);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      std::size_t count = 1;
      for (const auto& dim : std::span(function.outputs[i].dims, output_dims_[i].size())) {
        count *= static_cast<std::size_t>(dim.size < 0 ? dim.bound : dim.size);
      }
      room_.push_back(bytes_of(static_cast<DType>(outputs_[i].dtype), count));
    }
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  ~Replica() {
    if (function_.destroy != nullptr && function_.create != nullptr) function_.destroy(state_);
  }

  Status run(Inputs inputs, Outputs outputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& tensor = *inputs[i];
      std::ranges::copy(tensor.dims(), input_dims_[i].begin());
      // The interface is C's: that inputs are read only is a promise, not a type.
      inputs_[i].data =
          const_cast<void*>(tensor.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      inputs_[i].capacity_bytes = tensor.bytes();
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& port = function_.outputs[i];
      for (std::size_t d = 0; d < output_dims_[i].size(); ++d) {
        output_dims_[i][d] = port.dims[d].size < 0 ? port.dims[d].bound : port.dims[d].size;
      }
      if (outputs[i]->capacity_bytes() < room_[i]) {  // C code would not look.
        return invalid_argument("expected room for ", counted(room_[i], "byte"), ", found ",
                                outputs[i]->capacity_bytes(), "; the plan's type is smaller")
            .within({Where::kOutput, port.name})
            .within({Where::kFunction, function_.name});
      }
      outputs_[i].data = outputs[i]->data();
      outputs_[i].capacity_bytes = outputs[i]->capacity_bytes();
    }
    message_.front() = '\0';
    penstock_frame frame{inputs_.data(), outputs_.data(), message_.data(), message_.size()};
    const auto answer = function_.run(state_, &frame);
    if (answer == PENSTOCK_DROP) return drop(text_of(message_, "no reason given"));
    if (answer != PENSTOCK_OK) {
      return make_error(Code::kUnknown,
                        text_of(message_, concat("answered ", answer, " without a message")))
          .within({Where::kFunction, function_.name});
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) PENSTOCK_CHECK_OK(shape(i, *outputs[i]));
    return {};
  }

 private:
  using Dims = std::vector<std::vector<std::int64_t>>;

  static void set_up(const penstock_port* ports, std::int32_t count, Dims& dims,
                     std::vector<penstock_tensor>& tensors) {
    const std::span all(ports, static_cast<std::size_t>(count));
    for (const auto& port : all) dims.emplace_back(static_cast<std::size_t>(port.rank));
    for (std::size_t i = 0; i < all.size(); ++i) {
      tensors.push_back({all[i].dtype, all[i].rank, dims[i].data(), nullptr, 0});
    }
  }

  Status shape(std::size_t i, Tensor& output) {
    const auto& dims = output_dims_[i];
    const bool sane = std::ranges::none_of(dims, [](std::int64_t size) { return size < 0; });
    if (sane && output.set_dims(dims)) return {};
    return make_error(Code::kOutOfRange, "its shape [",
                      join(dims, ",", [](std::int64_t d) { return std::to_string(d); }),
                      sane ? "] is over its bound" : "] has a negative dimension")
        .within({Where::kOutput, function_.outputs[i].name})
        .within({Where::kFunction, function_.name});
  }

  const penstock_function& function_;
  void* state_;
  Dims input_dims_, output_dims_;
  std::vector<penstock_tensor> inputs_, outputs_;
  std::vector<std::size_t> room_;  // Bytes that each output takes at its bound.
  Message message_{};
};

Result<Call> create_replica(const penstock_function& function, const Settings& settings) {
  void* state = nullptr;
  if (function.create == nullptr) {
    PENSTOCK_CHECK_OK(refuse_settings(settings));
  } else {
    std::vector<penstock_option> options;
    for (const auto& [key, value] : settings) options.push_back({key.c_str(), value.c_str()});
    Message message{};
    if (function.create(options.data(), options.size(), &state, message.data(), message.size()) !=
        PENSTOCK_OK) {
      return invalid_argument(text_of(message, "cannot be created, and gave no message"));
    }
  }
  auto replica = std::make_shared<Replica>(function, state);
  return Call([replica](Inputs inputs, Outputs outputs) { return replica->run(inputs, outputs); });
}

Result<Function> function_of(const penstock_function& declared) {
  if (declared.name == nullptr || declared.run == nullptr) {
    return invalid_argument("a function without a name or without run()");
  }
  Function function;
  function.name = declared.name;
  function.stateful = declared.stateful != 0;
  const auto ports = [&](const penstock_port* list, std::int32_t count) {
    auto made = ports_of(list, count);
    if (made) return made;
    return Result<std::vector<backend::Port>>(
        std::move(made).error().within({Where::kFunction, function.name}));
  };
  PENSTOCK_TRY(function.inputs, ports(declared.inputs, declared.input_count));
  PENSTOCK_TRY(function.outputs, ports(declared.outputs, declared.output_count));
  function.create = [&declared](const Settings& settings) {
    return create_replica(declared, settings);
  };
  return function;
}

Result<std::vector<Function>> functions_of(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return not_found("no such file");
  if (file.extension() == ".py") return load_python_module(file);
  PENSTOCK_TRY(const auto* table, open_library(file));
  if (table->function_count < 1 || table->function_count > kMost || table->functions == nullptr) {
    return invalid_argument("a table of ", table->function_count, " functions");
  }
  std::vector<Function> functions;
  for (const auto& declared :
       std::span(table->functions, static_cast<std::size_t>(table->function_count))) {
    PENSTOCK_TRY(auto function, function_of(declared));
    functions.push_back(std::move(function));
  }
  return functions;
}

}  // namespace

Result<std::vector<Function>> load_library(const fs::path& file) {
  auto functions = functions_of(file);
  if (functions) return functions;
  return std::move(functions).error().within({Where::kFunctionLibrary, file.filename().string()});
}

}  // namespace penstock::function
