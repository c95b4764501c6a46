// Runs a function by the backend that pipelines run it by.
#include "penstock/ready/caller.h"

#include <utility>

#include "penstock/ready/kernel.h"

namespace penstock::ready {
namespace {

/// Room for the bound, in the shape of the bound.
Tensor room_for(const Type& type) {
  Tensor room = Tensor::reserve(type.dtype, type.max_bytes().value_or(0));
  std::vector<std::int64_t> dims;
  for (const auto& dim : type.dims) dims.push_back(most_of(dim));
  static_cast<void>(room.set_dims(dims));  // Reserved for just these.
  return room;
}

}  // namespace

Result<Caller> Caller::make(function::Function function) {
  Caller caller;
  backend::CompileRequest request;
  request.options["function"] = function.name;
  function::FunctionBackend backend({std::move(function)});
  PENSTOCK_TRY(caller.executable_, backend.compile(request));
  PENSTOCK_TRY(caller.context_, caller.executable_->create_context());
  return caller;
}

Result<std::vector<Tensor>> Caller::run(std::span<const Tensor> inputs) {
  std::vector<const Tensor*> in;
  for (const auto& input : inputs) in.push_back(&input);
  std::vector<Tensor> results;
  for (const auto& port : outputs()) results.push_back(room_for(port.type));
  std::vector<Tensor*> out;
  for (auto& result : results) out.push_back(&result);
  PENSTOCK_CHECK_OK(context_->run({}, in, out));
  return results;
}

}  // namespace penstock::ready
