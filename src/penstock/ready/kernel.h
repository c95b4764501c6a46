// What the ready-made functions are written with: their ports, and their calls.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/function/function.h"

namespace penstock::ready {

using function::Inputs;
using function::Outputs;

inline Dim sized(std::int64_t size) {
  return {size, {}, Dim::kOpen};
}
inline Dim open(std::string symbol, std::int64_t bound = Dim::kOpen) {
  return {Dim::kOpen, std::move(symbol), bound};
}
/// The most that a dimension of an output is.
inline std::int64_t most_of(const Dim& dim) {
  return dim.fixed() ? dim.size : dim.bound;
}

inline backend::Port u8(std::string name, std::vector<Dim> dims) {
  return {std::move(name), Type::tensor(DType::kU8, std::move(dims))};
}
inline backend::Port f32(std::string name, std::vector<Dim> dims) {
  return {std::move(name), Type::tensor(DType::kF32, std::move(dims))};
}
inline backend::Port i64(std::string name, std::vector<Dim> dims) {
  return {std::move(name), Type::tensor(DType::kI64, std::move(dims))};
}

/// Gives an output its shape in this call. \error kOutOfRange  it is over the bound.
Status shape(Tensor& output, std::span<const std::int64_t> dims);
inline Status shape(Tensor& output, std::initializer_list<std::int64_t> dims) {
  return shape(output, std::span(dims.begin(), dims.size()));
}

/// A function of which each replica runs a copy of `kernel`, by its run(Inputs, Outputs). What the
/// kernel keeps from call to call is room for intermediate results, or, where `stateful`, its
/// state.
template <typename Kernel>
function::Function made_of(std::string name, std::vector<backend::Port> inputs,
                           std::vector<backend::Port> outputs, Kernel kernel,
                           bool stateful = false) {
  function::Function function{std::move(name), std::move(inputs), std::move(outputs), stateful, {}};
  function.create = [kernel = std::move(kernel), of = function.name](
                        const function::Settings& settings) -> Result<function::Call> {
    PENSTOCK_CHECK_OK(function::refuse_settings(settings));
    const auto own = std::make_shared<Kernel>(kernel);
    return function::Call([own, of](Inputs in, Outputs out) {
      Status done = own->run(in, out);
      return done ? done : Status(std::move(done).error().within({Where::kFunction, of}));
    });
  };
  return function;
}

}  // namespace penstock::ready
