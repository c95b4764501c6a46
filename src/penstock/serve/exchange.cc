// Matches tensors to ports by name, reads and writes shared memory.
#include "penstock/serve/exchange.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "penstock/base/words.h"
#include "penstock/serve/classification.h"
#include "penstock/tensor/datatype.h"

namespace penstock::serve {
namespace {

using plan::TensorInfo;

std::optional<std::size_t> index_of(const std::vector<TensorInfo>& infos, const std::string& name) {
  const auto found = std::ranges::find(infos, name, &TensorInfo::name);
  if (found == infos.end()) return std::nullopt;
  return static_cast<std::size_t>(found - infos.begin());
}

bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % Tensor::kAlignment == 0;
}

/// The tensor of an input that lies in a region.
Result<Tensor> read_region(const RequestInput& input, const SharedMemory& regions,
                           std::uint32_t& copies) {
  PENSTOCK_TRY(auto place, regions.at(*input.place));
  const bool strings = input.dtype == DType::kString;
  PENSTOCK_TRY(const auto expected, strings ? Result<std::size_t>(place.bytes.size())
                                            : count_bytes(input.dtype, input.dims));
  if (!strings && expected == place.bytes.size() && is_aligned(place.bytes.data())) {
    return Tensor::view(input.dtype, input.dims, place.bytes.data(), std::move(place.owner));
  }
  ++copies;
  return copy_raw(input.dtype, input.dims, place.bytes);
}

Result<Tensor> read_input(RequestInput& input, const SharedMemory& regions, std::uint32_t& copies) {
  if (input.place) return read_region(input, regions, copies);
  if (input.value.kind() == Tensor::Kind::kNone) {
    return invalid_argument("unable to find data for input tensor '", input.name,
                            "': give its bytes, or its place in a shared memory region");
  }
  return std::move(input.value);
}

/// Engines compute with a truth value's byte: another than 0 and 1 is neither.
Status check_truth_values(const Tensor& value) {
  if (value.kind() != Tensor::Kind::kDense || value.dtype() != DType::kBool) return {};
  const std::span bytes(static_cast<const std::uint8_t*>(value.data()), value.bytes());
  const auto wrong = std::ranges::find_if(bytes, [](std::uint8_t byte) { return byte > 1; });
  if (wrong == bytes.end()) return {};
  return invalid_argument("element ", wrong - bytes.begin(),
                          ": expected the byte 0 or 1, as it is BOOL, found ", int{*wrong});
}

Error in_input(Error error, const std::string& name) {
  return std::move(error).within({Where::kInput, name});
}
Error in_output(Error error, const std::string& name) {
  return std::move(error).within({Where::kOutput, name});
}

/// Copies a tensor to its place. \returns the place with the bytes written.
Result<RegionPlace> write_region(const Tensor& tensor, const RegionPlace& place,
                                 const SharedMemory& regions) {
  PENSTOCK_TRY(const auto room, regions.at(place));
  const bool strings = tensor.kind() == Tensor::Kind::kStrings;
  const std::string encoded = strings ? encode_strings(tensor) : std::string();
  const auto* from = strings ? static_cast<const void*>(encoded.data()) : tensor.data();
  const std::size_t size = strings ? encoded.size() : tensor.bytes();
  if (size > room.bytes.size()) {
    return invalid_argument("it has ", counted(size, "byte"),
                            ", but its place in shared memory region '", place.region, "' has ",
                            room.bytes.size());
  }
  if (size > 0) std::memcpy(room.bytes.data(), from, size);
  return RegionPlace{place.region, place.offset, size};
}

Result<ReplyOutput> make_output(const RequestedOutput& wanted, Tensor value,
                                const SharedMemory& regions, std::uint64_t& copies) {
  ReplyOutput made{wanted.name, std::move(value), std::nullopt, wanted.binary};
  if (made.value.kind() != Tensor::Kind::kDense && made.value.kind() != Tensor::Kind::kStrings) {
    return make_error(Code::kUnimplemented, "the model gave no tensor; the protocol has no other");
  }
  if (wanted.classification > 0) {
    PENSTOCK_TRY(made.value, classify(made.value, wanted.classification));
  }
  if (wanted.place) {
    PENSTOCK_TRY(made.place, write_region(made.value, *wanted.place, regions));
    ++copies;
  }
  return made;
}

}  // namespace

Status check_interface(const Interface& interface) {
  const auto check = [](const TensorInfo& info) -> Status {
    if (info.type.kind == Type::Kind::kTensor && !datatype_of(info.type.dtype).empty()) return {};
    return invalid_argument("it is ", info.type,
                            ", which the Open Inference Protocol cannot carry; serve a model whose "
                            "inputs and outputs are tensors of its types");
  };
  for (const auto& info : interface.inputs) {
    if (Status fits = check(info); !fits) return in_input(std::move(fits).error(), info.name);
  }
  for (const auto& info : interface.outputs) {
    if (Status fits = check(info); !fits) return in_output(std::move(fits).error(), info.name);
  }
  return {};
}

Result<std::vector<Tensor>> read_inputs(Request& request, const Interface& interface,
                                        const SharedMemory& regions) {
  std::vector<Tensor> inputs(interface.inputs.size());
  std::vector<bool> given(inputs.size(), false);
  for (auto& input : request.inputs) {
    const auto index = index_of(interface.inputs, input.name);
    if (!index && !interface.bound.contains(input.name)) {
      return invalid_argument("unexpected inference input '", input.name, "' for model '",
                              request.model, "'; its inputs are ", quoted_names(interface.inputs));
    }
    if (index && given[*index])
      return in_input(invalid_argument("expected it once, found it twice"), input.name);
    auto value = read_input(input, regions, request.copies);
    if (!value) return in_input(std::move(value).error(), input.name);
    Status is_true_or_false = check_truth_values(*value);
    if (!is_true_or_false) return in_input(std::move(is_true_or_false).error(), input.name);
    Status fits = index ? check_matches(interface.inputs[*index].type, *value)
                        : plan::check_bound(interface.bound, input.name, *value);
    if (!fits) return in_input(std::move(fits).error(), input.name);
    if (!index) continue;
    inputs[*index] = *std::move(value);
    given[*index] = true;
  }
  const auto missing = std::ranges::find(given, false);
  if (missing == given.end()) {
    if (request.nameless == 0) return inputs;
    return invalid_argument("expected no contents, as the request names no inputs and model '",
                            request.model, "' needs none, found those of ",
                            counted(request.nameless, "tensor"));
  }
  return invalid_argument("expected ", inputs.size(), " inputs but got ", request.inputs.size(),
                          " inputs for model '", request.model, "': '",
                          interface.inputs[static_cast<std::size_t>(missing - given.begin())].name,
                          "' is missing");
}

Status check_outputs(const Request& request, const Interface& interface) {
  std::vector<bool> asked(interface.outputs.size(), false);
  for (const auto& output : request.outputs) {
    const auto index = index_of(interface.outputs, output.name);
    if (!index) {
      return invalid_argument("unexpected inference output '", output.name, "' for model '",
                              request.model, "'; its outputs are ",
                              quoted_names(interface.outputs));
    }
    if (asked[*index])
      return in_output(invalid_argument("expected it once, found it twice"), output.name);
    if (output.place && output.classification > 0) {
      return in_output(invalid_argument("classification has no place in shared memory"),
                       output.name);
    }
    asked[*index] = true;
  }
  return {};
}

Result<Reply> make_reply(const Request& request, const Interface& interface,
                         const SharedMemory& regions, pipeline::Output& output,
                         std::uint64_t& copies) {
  Reply reply{request.model, request.version, request.id, {}};
  for (std::size_t i = 0; i < interface.outputs.size(); ++i) {
    const std::string& name = interface.outputs[i].name;
    const auto asked = std::ranges::find(request.outputs, name, &RequestedOutput::name);
    const bool is_asked = asked != request.outputs.end();
    if (!is_asked && !request.outputs.empty()) continue;
    auto made = make_output(is_asked ? *asked : RequestedOutput{.name = name}, output.take(i),
                            regions, copies);
    if (!made) return in_output(std::move(made).error(), name);
    reply.outputs.push_back(*std::move(made));
  }
  return reply;
}

}  // namespace penstock::serve
