// What the handles of penstock.h are.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/c/penstock.h"
#include "penstock/c/ports.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "penstock/plan/stream_options.h"

struct penstock_error {
  penstock::Error error;
  std::string message;
};

struct penstock_pipeline {
  penstock::plan::Package package;  // Its files outlive the pipeline, which is declared behind it.
  penstock::plan::StreamOptions stream;
  penstock::pipeline::Options options;  // For replace() too.
  std::vector<std::string> warnings;
  penstock::c::Ports inputs, outputs;

  std::mutex borrowing;  // Guards what follows.
  std::span<penstock::Tensor> borrowed;
  std::vector<penstock_tensor> borrowed_views;
  std::vector<std::vector<std::int64_t>> borrowed_dims;

  std::unique_ptr<penstock::pipeline::Pipeline> running;
};

struct penstock_result {
  std::optional<penstock::pipeline::Output> output;  // Nothing: `copies` are the outputs of a run.
  std::vector<penstock::Tensor> copies;
  std::uint64_t tag = 0, stream = 0;                // Of a run.
  penstock_error error;                             // Where the output has one.
  std::vector<std::vector<penstock_string>> texts;  // Of each output; empty where it has none.

  [[nodiscard]] std::size_t size() const { return output ? output->size() : copies.size(); }
  [[nodiscard]] const penstock::Tensor& at(std::size_t index) const {
    return output ? (*output)[index] : copies[index];
  }
  /// Reads what can only be read once `output` or `copies` is there. Throws nothing.
  void fill() noexcept;
};

struct penstock_states {
  penstock::pipeline::Named values;
  std::vector<std::vector<penstock_string>> texts;
};
