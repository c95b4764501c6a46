// Errors of the library as objects of C, and the functions that read their code, text and places.
#include <new>

#include "penstock/base/version.h"
#include "penstock/c/guarded.h"

namespace penstock::c {
namespace {

const Where* place(const penstock_error* error, std::size_t index) {
  return error != nullptr && index < error->error.places.size() ? &error->error.places[index]
                                                                : nullptr;
}

}  // namespace

int give(Error failure, penstock_error** error) noexcept {
  const int code = static_cast<int>(failure.code);
  if (error == nullptr) return code;
  try {
    if (failure.code == Code::kResourceExhausted && failure.reason.empty()) {
      failure.reason = "out of memory";
    }
    std::string message = failure.message();
    *error = new penstock_error{std::move(failure), std::move(message)};
  } catch (...) {
    *error = nullptr;
  }
  return code;
}

}  // namespace penstock::c

using penstock::c::place;

extern "C" {

std::int32_t penstock_c_version(void) {
  return PENSTOCK_C_VERSION;
}

const char* penstock_version(void) {
  return penstock::version().data();  // A literal: it ends in 0.
}

std::int32_t penstock_error_code(const penstock_error* error) {
  return error == nullptr ? 0 : static_cast<std::int32_t>(error->error.code);
}

const char* penstock_error_code_name(const penstock_error* error) {
  return error == nullptr ? "ok" : to_string(error->error.code).data();  // A literal.
}

const char* penstock_error_message(const penstock_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}

const char* penstock_error_reason(const penstock_error* error) {
  return error == nullptr ? "" : error->error.reason.c_str();
}

std::size_t penstock_error_place_count(const penstock_error* error) {
  return error == nullptr ? 0 : error->error.places.size();
}

const char* penstock_error_place_kind(const penstock_error* error, std::size_t index) {
  const auto* found = place(error, index);
  return found == nullptr ? nullptr : to_string(found->kind).data();  // A literal.
}

const char* penstock_error_place_name(const penstock_error* error, std::size_t index) {
  const auto* found = place(error, index);
  return found == nullptr || is_numbered(found->kind) ? nullptr : found->name.c_str();
}

std::uint64_t penstock_error_place_number(const penstock_error* error, std::size_t index) {
  const auto* found = place(error, index);
  return found == nullptr ? 0 : found->number;
}

void penstock_error_free(penstock_error* error) {
  delete error;
}

}  // extern "C"
