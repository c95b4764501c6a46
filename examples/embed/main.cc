// Runs a package made by `penstock split` over a stream of frames: one thread pushes, one pops.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"

namespace {

using penstock::Result;
using penstock::Tensor;
using penstock::pipeline::Pipeline;

int fail(const penstock::Error& error) {
  std::cerr << "embed: " << error.message() << '\n';
  return 1;
}

/// A tensor of the declared type; open dimensions take their bound, or 1.
Tensor make_input(const penstock::Type& type, std::size_t frame) {
  std::vector<std::int64_t> dims;
  for (const auto& dim : type.dims) {
    dims.push_back(dim.fixed() ? dim.size : std::max<std::int64_t>(dim.bound, 1));
  }
  auto tensor = Tensor::allocate(type.dtype, dims);
  if (type.dtype == penstock::DType::kF32) {
    std::ranges::fill(tensor.as<float>(), static_cast<float>(frame));
  }
  return tensor;
}

/// A pushed tensor is read in place and must not be written again: every frame has its own.
void push_all(Pipeline& pipeline, std::size_t frames) {
  for (std::size_t frame = 0; frame < frames; ++frame) {
    std::vector<Tensor> inputs;
    for (const auto& input : pipeline.plan().inputs) {
      inputs.push_back(make_input(input.type, frame));
    }
    if (!pipeline.push(inputs)) break;  // Cancelled: the popping side says why.
  }
  pipeline.close();
}

void print(const penstock::pipeline::Output& output, const penstock::plan::Plan& plan) {
  std::cout << "frame " << output.number() << ':';
  for (std::size_t i = 0; i < output.size(); ++i) {
    std::cout << ' ' << plan.outputs[i].name << " = " << output[i].type();
    if (output[i].dtype() == penstock::DType::kF32 && output[i].count() > 0) {
      std::cout << ' ' << output[i].as<float>().front();
    }
  }
  std::cout << '\n';
}

int run(const std::filesystem::path& file, std::size_t frames) {
  const auto package = penstock::plan::load_package(file);
  if (!package) return fail(package.error());
  const auto backends = penstock::backend::Registry::load();
  for (const auto& problem : backends.problems()) std::cerr << "embed: " << problem << '\n';
  const auto pipeline = Pipeline::start(package->plan, package->folder, backends);
  if (!pipeline) return fail(pipeline.error());

  // Destroyed, and so joined, before the pipeline.
  const std::jthread pusher([&] { push_all(**pipeline, frames); });
  for (;;) {
    const auto output = (*pipeline)->pop();
    if (!output) return fail(output.error());
    if (!*output) return 0;  // Closed, and everything has come out.
    if (!(*output)->ok()) return (*pipeline)->cancel(), fail((*output)->error());
    print(**output, package->plan);
  }
}

std::optional<std::size_t> number_in(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (arguments.size() != 3) {
    std::cerr << "usage: embed PACKAGE FRAMES\n";
    return 2;
  }
  const auto frames = number_in(arguments[2]);
  if (!frames) {
    std::cerr << "embed: FRAMES: expected a whole number from 0 on, found '" << arguments[2]
              << "'\n";
    return 2;
  }
  return run(arguments[1], *frames);
}
