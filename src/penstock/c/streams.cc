// Functions of penstock.h for streams that have states: reset, end, save and restore.
#include <utility>

#include "penstock/c/convert.h"
#include "penstock/c/guarded.h"

using penstock::Status;
using penstock::c::expect;
using penstock::c::guarded;

extern "C" {

std::int32_t penstock_reset_stream(penstock_pipeline* pipeline, std::uint64_t stream,
                                   penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    return pipeline->running->reset_stream(stream);
  });
}

std::int32_t penstock_reset_states(penstock_pipeline* pipeline, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    return pipeline->running->reset_states();
  });
}

std::int32_t penstock_end_stream(penstock_pipeline* pipeline, std::uint64_t stream,
                                 penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    return pipeline->running->end_stream(stream);
  });
}

std::int32_t penstock_save_stream(penstock_pipeline* pipeline, std::uint64_t stream,
                                  penstock_states** states, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    PENSTOCK_CHECK_OK(expect(states, "states"));
    auto made = std::make_unique<penstock_states>();
    PENSTOCK_TRY(made->values, pipeline->running->save_stream(stream));
    for (const auto& [name, value] : made->values) {
      made->texts.push_back(penstock::c::texts_of(value));
    }
    *states = made.release();
    return {};
  });
}

std::size_t penstock_states_count(const penstock_states* states) {
  return states == nullptr ? 0 : states->values.size();
}

const char* penstock_states_name(const penstock_states* states, std::size_t index) {
  return index < penstock_states_count(states) ? states->values[index].first.c_str() : nullptr;
}

std::int32_t penstock_states_tensor(const penstock_states* states, std::size_t index,
                                    penstock_tensor* tensor, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(states, "states"));
    PENSTOCK_CHECK_OK(expect(tensor, "tensor"));
    if (index >= states->values.size()) {
      return penstock::make_error(penstock::Code::kOutOfRange, "state ", index, ": there are ",
                                  states->values.size());
    }
    PENSTOCK_TRY(*tensor, penstock::c::view_of(states->values[index].second, states->texts[index]));
    return {};
  });
}

void penstock_states_free(penstock_states* states) {
  delete states;
}

std::int32_t penstock_restore_stream(penstock_pipeline* pipeline, std::uint64_t stream,
                                     const char* const* names, const penstock_tensor* values,
                                     std::size_t count, penstock_error** error) {
  return guarded(error, [&]() -> Status {
    PENSTOCK_CHECK_OK(expect(pipeline, "pipeline"));
    if (count > 0) PENSTOCK_CHECK_OK(expect(names, "names"));
    for (std::size_t i = 0; i < count; ++i) PENSTOCK_CHECK_OK(expect(names[i], "name"));
    PENSTOCK_TRY(auto tensors, penstock::c::to_tensors(values, count, nullptr, {[&](std::size_t i) {
                                                         return penstock::Where(
                                                             penstock::Where::kTensor, names[i]);
                                                       }}));
    penstock::pipeline::Named states;
    for (std::size_t i = 0; i < count; ++i) {
      states.emplace_back(names[i], std::move(tensors[i]));
    }
    return pipeline->running->restore_stream(stream, states);
  });
}

}  // extern "C"
