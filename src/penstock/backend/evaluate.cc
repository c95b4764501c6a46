// Compiles a model without optimisation, and runs it once or reads the types of its outputs.
#include "penstock/backend/evaluate.h"

#include "penstock/base/thread.h"

namespace penstock::backend {
namespace {

Result<std::unique_ptr<Executable>> compile_plainly(
    Backend& backend, const std::string& model,
    const std::vector<std::filesystem::path>& custom_ops) {
  CompileRequest request;
  request.bytes = model;
  request.optimize = false;
  request.custom_ops = custom_ops;
  return backend.compile(request);
}

}  // namespace

Result<std::vector<Tensor>> evaluate(Backend& backend, const std::string& model,
                                     const std::vector<Tensor>& inputs,
                                     const std::vector<std::filesystem::path>& custom_ops,
                                     std::chrono::nanoseconds limit) {
  PENSTOCK_TRY(const auto executable, compile_plainly(backend, model, custom_ops));
  PENSTOCK_TRY(const auto context, executable->create_context());
  std::vector<Tensor> outputs(executable->outputs().size());
  std::vector<const Tensor*> input_pointers;
  std::vector<Tensor*> output_pointers;
  input_pointers.reserve(inputs.size());
  output_pointers.reserve(outputs.size());
  for (const auto& input : inputs) input_pointers.push_back(&input);
  for (auto& output : outputs) output_pointers.push_back(&output);
  const auto run = [&]() -> Status {
    PENSTOCK_CHECK_OK(context->run({}, input_pointers, output_pointers));
    return context->wait(kNoDeadline);
  };
  PENSTOCK_CHECK_OK(run_within(limit, [&] { context->cancel(); }, run));
  return outputs;
}

Result<std::vector<Type>> output_types(Backend& backend, const std::string& model,
                                       const std::vector<std::filesystem::path>& custom_ops) {
  PENSTOCK_TRY(const auto executable, compile_plainly(backend, model, custom_ops));
  std::vector<Type> types;
  for (const auto& port : executable->outputs()) types.push_back(port.type);
  return types;
}

}  // namespace penstock::backend
