// Functions of penstock.h that push frames, from copied, lent or borrowed memory, or run one frame.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "penstock/c/convert.h"
#include "penstock/c/guarded.h"
#include "penstock/c/timeout.h"

namespace penstock::c {
namespace {

using pipeline::FrameOptions;
using pipeline::Output;

/// The caller's memory while a frame may read it.
struct Loan {
  explicit Loan(void* what) : context(what) {}
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() {
    if (release != nullptr) release(context);
  }

  void (*release)(void*) = nullptr;  // Null: the caller has its memory still.
  void* context;
};

/// Until kept: a push that fails, by an exception too, leaves the caller its memory.
struct Lending {
  explicit Lending(Loan* made, void (*how)(void*)) : loan(made) {
    if (loan != nullptr) loan->release = how;
  }
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  ~Lending() {
    if (loan != nullptr) loan->release = nullptr;
  }

  Loan* loan;  // Null where it is kept.
};

/// Members that the caller does not know are 0. \error kInvalidArgument  no size, as of an
/// uninitialised structure.
Result<penstock_push_options> known_options(const penstock_push_options* given) {
  penstock_push_options known{};
  known.timeout_ns = PENSTOCK_FOR_EVER;
  if (given == nullptr) return known;
  if (given->size < sizeof given->size) {
    return invalid_argument("options: size: expected sizeof(penstock_push_options), found ",
                            given->size);
  }
  known.timeout_ns = 0;
  std::memcpy(&known, given, std::min(given->size, sizeof known));
  return known;
}

std::chrono::steady_clock::time_point from_now(std::int64_t nanoseconds) {
  const auto now = std::chrono::steady_clock::now();
  const auto most = std::chrono::steady_clock::time_point::max() - now;
  return now + std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds(nanoseconds), most);
}

/// What `done` gets is made before the push: nothing is left that could fail when it is called.
std::function<void(Output)> callback(const penstock_push_options& given) {
  if (given.done == nullptr) return {};
  auto made = std::make_shared<std::unique_ptr<penstock_result>>();
  *made = std::make_unique<penstock_result>();
  return [made, done = given.done, context = given.done_context](Output output) {
    (*made)->output.emplace(std::move(output));
    (*made)->fill();
    done(context, made->release());
  };
}

FrameOptions to_frame_options(const penstock_push_options& given) {
  FrameOptions options;
  options.tag = given.tag;
  options.stream = given.stream;
  options.priority = given.high != 0 ? pipeline::Priority::kHigh : pipeline::Priority::kNormal;
  options.in_order = given.unordered == 0;
  options.done = callback(given);
  if (given.within_ns != 0) options.deadline = from_now(given.within_ns);
  return options;
}

/// What an error about a tensor names; one too many has but its position.
Places inputs_of(const penstock_pipeline& pipeline) {
  return {.place_of =
              [&pipeline](std::size_t i) {
                const auto* const input = pipeline.inputs.at(i);
                return input != nullptr ? Where(Where::kInput, input->name)
                                        : Where(Where::kText, concat("tensor ", i));
              },
          .dtype_of =
              [&pipeline](std::size_t i) {
                const auto* const input = pipeline.inputs.at(i);
                return input != nullptr ? input->dtype : 0;
              }};
}

Status push(penstock_pipeline& pipeline, const penstock_tensor* inputs, std::size_t count,
            const penstock_push_options& given, std::uint64_t* number) {
  std::shared_ptr<Loan> loan;
  if (given.release != nullptr) loan = std::make_shared<Loan>(given.release_context);
  PENSTOCK_TRY(const auto tensors, to_tensors(inputs, count, loan, inputs_of(pipeline)));
  const auto options = to_frame_options(given);
  // Before the push: the frame may be out of the stages that read it before the push returns.
  Lending lending(loan.get(), given.release);
  PENSTOCK_TRY(const auto pushed,
               pipeline.running->push(tensors, to_timeout(given.timeout_ns), options));
  lending.loan = nullptr;
  if (number != nullptr) *number = pushed;
  return {};
}

/// \error kUnimplemented  an input is no array of numbers.
Status check_slots(const std::span<Tensor>& slots, const penstock_pipeline& pipeline) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].kind() == Tensor::Kind::kDense && slots[i].in_host_memory()) continue;
    return make_error(Code::kUnimplemented, "it has no slot to write to; use penstock_push()")
        .within({Where::kInput, pipeline.inputs.at(i)->name});
  }
  return {};
}

Status acquire(penstock_pipeline& pipeline, std::int64_t timeout_ns, penstock_tensor** inputs) {
  PENSTOCK_TRY(const auto slots, pipeline.running->acquire_input(to_timeout(timeout_ns)));
  if (Status status = check_slots(slots, pipeline); !status) {
    pipeline.running->release_input();
    return status;
  }
  const std::scoped_lock lock(pipeline.borrowing);
  pipeline.borrowed = slots;
  pipeline.borrowed_dims.resize(slots.size());
  pipeline.borrowed_views.resize(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    auto& dims = pipeline.borrowed_dims[i];
    dims = slots[i].dims();
    pipeline.borrowed_views[i] = {static_cast<std::int32_t>(slots[i].dtype()),
                                  static_cast<std::int32_t>(dims.size()), dims.data(),
                                  slots[i].data(), slots[i].capacity_bytes()};
  }
  *inputs = pipeline.borrowed_views.data();
  return {};
}

/// The sizes that the caller wrote. \error kInvalidArgument  names the input.
Status take_sizes(penstock_pipeline& pipeline) {
  const std::scoped_lock lock(pipeline.borrowing);
  const auto slots = std::exchange(pipeline.borrowed, {});
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& dims = pipeline.borrowed_dims[i];
    if (std::ranges::none_of(dims, [](auto size) { return size < 0; }) && slots[i].set_dims(dims)) {
      continue;
    }
    return invalid_argument("expected sizes within its ", slots[i].capacity_bytes(),
                            " bytes, found [",
                            join(dims, ",", [](auto size) { return std::to_string(size); }), "]")
        .within({Where::kInput, pipeline.inputs.at(i)->name});
  }
  return {};
}

Status push_acquired(penstock_pipeline& pipeline, const penstock_push_options& given,
                     std::uint64_t* number) {
  const auto options = to_frame_options(given);
  if (Status status = take_sizes(pipeline); !status) {
    pipeline.running->release_input();
    return status;
  }
  PENSTOCK_TRY(const auto pushed, pipeline.running->push_acquired(options));
  if (number != nullptr) *number = pushed;
  return {};
}

}  // namespace
}  // namespace penstock::c

using penstock::Status;
using penstock::c::expect;
using penstock::c::guarded;
using penstock::c::known_options;

extern "C" {

std::int32_t penstock_push(penstock_pipeline* pipeline, const penstock_tensor* inputs,
                           std::size_t input_count, const penstock_push_options* options,
                           std::uint64_t* number, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_TRY(const auto known, known_options(options));
    return penstock::c::push(*pipeline, inputs, input_count, known, number);
  });
}

std::int32_t penstock_acquire_input(penstock_pipeline* pipeline, std::int64_t timeout_ns,
                                    penstock_tensor** inputs, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(inputs, "inputs"));
    return penstock::c::acquire(*pipeline, timeout_ns, inputs);
  });
}

std::int32_t penstock_push_acquired(penstock_pipeline* pipeline,
                                    const penstock_push_options* options, std::uint64_t* number,
                                    penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_TRY(const auto known, known_options(options));
    return penstock::c::push_acquired(*pipeline, known, number);
  });
}

std::int32_t penstock_release_input(penstock_pipeline* pipeline, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    {
      const std::scoped_lock lock(pipeline->borrowing);
      pipeline->borrowed = {};
    }
    pipeline->running->release_input();
    return {};
  });
}

std::int32_t penstock_run(penstock_pipeline* pipeline, const penstock_tensor* inputs,
                          std::size_t input_count, const penstock_push_options* options,
                          penstock_result** result, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(result, "result"));
    PENSTOCK_TRY(auto known, known_options(options));
    known.done = nullptr;
    PENSTOCK_TRY(const auto tensors, penstock::c::to_tensors(inputs, input_count, nullptr,
                                                             penstock::c::inputs_of(*pipeline)));
    auto made = std::make_unique<penstock_result>();
    PENSTOCK_TRY(made->copies,
                 pipeline->running->run(tensors, penstock::c::to_frame_options(known)));
    made->tag = known.tag;
    made->stream = known.stream;
    made->fill();
    *result = made.release();
    return {};
  });
}

}  // extern "C"
