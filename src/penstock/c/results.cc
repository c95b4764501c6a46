// Functions of penstock.h that pop a frame and read its outcome, error, latency and tensors.
#include <utility>

#include "penstock/c/convert.h"
#include "penstock/c/guarded.h"
#include "penstock/c/timeout.h"

void penstock_result::fill() noexcept {
  try {
    if (output && !output->ok()) {
      error.error.code = output->error().code;
      error.error = output->error();
      error.message = error.error.message();
    }
    texts.resize(size());
    for (std::size_t i = 0; i < size(); ++i) texts[i] = penstock::c::texts_of(at(i));
  } catch (...) {
    // Memory ran out: the frame has come out all the same, and what it has to say stays unsaid.
    if (error.error.code == penstock::Code::kUnknown) {
      error.error.code = penstock::Code::kResourceExhausted;
    }
  }
}

using penstock::Status;
using penstock::c::expect;
using penstock::c::guarded;

extern "C" {

std::int32_t penstock_pop(penstock_pipeline* pipeline, std::int64_t timeout_ns,
                          penstock_result** result, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(result, "result"));
    auto made = std::make_unique<penstock_result>();  // Before the frame is taken out.
    PENSTOCK_TRY(auto output, pipeline->running->pop(penstock::c::to_timeout(timeout_ns)));
    if (!output) {
      *result = nullptr;
      return {};
    }
    made->output.emplace(*std::move(output));
    made->fill();
    *result = made.release();
    return {};
  });
}

std::uint64_t penstock_result_number(const penstock_result* result) {
  return result == nullptr || !result->output ? 0 : result->output->number();
}

std::uint64_t penstock_result_tag(const penstock_result* result) {
  if (result == nullptr) return 0;
  return result->output ? result->output->tag() : result->tag;
}

std::uint64_t penstock_result_stream(const penstock_result* result) {
  if (result == nullptr) return 0;
  return result->output ? result->output->stream() : result->stream;
}

std::int32_t penstock_result_outcome(const penstock_result* result) {
  if (result == nullptr || !result->output) return PENSTOCK_OUTCOME_OK;
  return static_cast<std::int32_t>(result->output->outcome());
}

std::int64_t penstock_result_latency_ns(const penstock_result* result) {
  return result == nullptr || !result->output ? 0 : result->output->latency().count();
}

const penstock_error* penstock_result_error(const penstock_result* result) {
  return penstock_result_outcome(result) == PENSTOCK_OUTCOME_OK ? nullptr : &result->error;
}

std::size_t penstock_result_count(const penstock_result* result) {
  return result == nullptr ? 0 : result->size();
}

std::int32_t penstock_result_tensor(const penstock_result* result, std::size_t index,
                                    penstock_tensor* tensor, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(result, "result"));
    PENSTOCK_CHECK_OK(expect(tensor, "tensor"));
    if (index >= result->size()) {
      return penstock::make_error(penstock::Code::kOutOfRange, "output ", index,
                                  ": the result has ", result->size());
    }
    auto view = penstock::c::view_of(result->at(index), result->texts.at(index));
    if (!view) return std::move(view).error().within(penstock::concat("output ", index));
    *tensor = *view;
    return {};
  });
}

void penstock_result_free(penstock_result* result) {
  delete result;
}

}  // extern "C"

static_assert(static_cast<int>(penstock::pipeline::Outcome::kOk) == PENSTOCK_OUTCOME_OK);
static_assert(static_cast<int>(penstock::pipeline::Outcome::kError) == PENSTOCK_OUTCOME_ERROR);
static_assert(static_cast<int>(penstock::pipeline::Outcome::kDropped) == PENSTOCK_OUTCOME_DROPPED);
static_assert(static_cast<int>(penstock::pipeline::Outcome::kCancelled) ==
              PENSTOCK_OUTCOME_CANCELLED);
