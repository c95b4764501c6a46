// Result<T>: a T, or the Error that prevented it.
#pragma once

#include <optional>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {

/// A C++20 stand-in for std::expected<T, Error>, with the same member names.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(*-explicit-*)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(*-explicit-*)

  [[nodiscard]] explicit operator bool() const { return value_.has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  /// \pre there is one.
  [[nodiscard]] const Error& error() const& { return *error_; }
  [[nodiscard]] Error&& error() && { return *std::move(error_); }

 private:
  // Not a variant: every file of the tree compiles one for each T. Not an Error that may be empty:
  // making and moving one takes as long as the rest of a short function that succeeds.
  std::optional<T> value_;
  std::optional<Error> error_;
};

/// Success, or the Error that prevented it. `return {};` is success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(*-explicit-*)

  [[nodiscard]] explicit operator bool() const { return !error_; }
  [[nodiscard]] const Error& error() const& { return *error_; }
  [[nodiscard]] Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace penstock

/// Declares `declaration` from a Result, or returns its error from the enclosing function.
#define PENSTOCK_TRY(declaration, ...) PENSTOCK_TRY_IMPL(declaration, __LINE__, __VA_ARGS__)
#define PENSTOCK_TRY_IMPL(declaration, line, ...) PENSTOCK_TRY_AT(declaration, line, __VA_ARGS__)
#define PENSTOCK_TRY_AT(declaration, line, ...)                \
  auto result_##line = (__VA_ARGS__);                          \
  if (!result_##line) return std::move(result_##line).error(); \
  declaration = *std::move(result_##line)  // NOLINT(bugprone-macro-parentheses): it declares

/// Returns the error of a Status from the enclosing function, if there is one.
#define PENSTOCK_CHECK_OK(...) \
  if (auto check_ok_ = (__VA_ARGS__); !check_ok_) return std::move(check_ok_).error()
