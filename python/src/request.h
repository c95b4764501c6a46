// What Python asks for as the library's values, and what every way of making a pipeline shares.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "callable.h"
#include "gil.h"
#include "penstock/backend/registry.h"
#include "penstock/session/plan_model.h"
#include "penstock/session/session.h"
#include "text.h"

namespace penstock::python {

namespace nb = nanobind;

/// A model by path, or its bytes.
struct Model {
  std::filesystem::path file;
  std::optional<std::string> bytes;
};

/// How a pipeline runs, whatever it was made of.
struct RunOptions {
  plan::StreamOptions stream;
  pipeline::Options pipeline;
  std::vector<Callable> callables;  ///< The functions of `pipeline`.
};

struct SplitRequest {
  Model model;
  graph::ImportOptions import;
  partition::SplitOptions split;
  // What says where the stages are, for to_split_by(); pins are the planner's too.
  std::vector<std::string> cuts;
  std::vector<std::pair<std::string, std::string>> pins;
  bool annotations = false;
  std::optional<PlanModelOptions> planning;
  std::vector<plan::StateEdge> states;  ///< `initial` is a file, or empty.
  RunOptions run;
  std::filesystem::path output;  ///< Empty: nothing is written but a temporary package.
};

/// What a request made, or why not; filled on a thread of its own.
struct Made {
  std::optional<Error> error;
  plan::Package package;
  std::unique_ptr<pipeline::Pipeline> running;
  RunOptions run;  ///< As it was started.
  std::vector<std::string> warnings;
  std::function<bool()> abandoned;  ///< Asked while it is made.
};

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// What a T is called in Python, for who gave something else.
template <typename T>
constexpr const char* kind_of() {
  if constexpr (kIsOptional<T>) {
    return kind_of<typename T::value_type>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return "True or False";
  } else if constexpr (std::is_integral_v<T>) {
    return "a whole number";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "a number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a text";
  } else {
    return "another type";
  }
}

/// Whether a T is a number, or none: Python's True is a 1 to who casts it, and no number to a user.
template <typename T>
constexpr bool is_number() {
  if constexpr (kIsOptional<T>) {
    return is_number<typename T::value_type>();
  } else {
    return std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
  }
}

/// Reads the entries of a dict that the Python side wrote.
class Options {
 public:
  explicit Options(nb::dict dict) : dict_(std::move(dict)) {}

  /// Raises InvalidArgument where the value is of another type.
  template <typename T>
  T get(const char* name) const {
    const nb::object value = dict_[name];
    if constexpr (std::is_same_v<T, std::string>) {
      if (PyUnicode_Check(value.ptr())) return text_of(value);  // A path may be any bytes.
    }
    T cast{};
    const bool misfit = is_number<T>() && PyBool_Check(value.ptr());
    if (misfit || !nb::try_cast(value, cast)) refuse(name, kind_of<T>(), value);
    return cast;
  }
  template <typename T>
  std::optional<T> maybe(const char* name) const {
    return get<std::optional<T>>(name);
  }

  /// A whole number, or None. Raises as get(). \error kInvalidArgument  it is out of range.
  Result<std::optional<int>> within(const char* name, int least, int most) const;

 private:
  [[noreturn]] static void refuse(const char* name, const char* expected, const nb::object& value);

  nb::dict dict_;
};

/// Found once, kept for the life of the process: plugins are never closed.
const backend::Registry& backends();

/// Of the option `name`, which is in milliseconds.
Result<std::optional<std::chrono::microseconds>> to_microseconds(const Options& options,
                                                                 const char* name);

/// Settings by backend, of the option `name`. \error kNotFound  no such backend.
using BackendOptions = std::map<std::string, std::map<std::string, std::string>>;
Result<BackendOptions> to_backend_options(const Options& options, const char* name);

/// Policy, capacity and so on.
Result<RunOptions> to_run_options(const Options& options);

/// "" is none. \error those of parse_devices() and check_available()
Result<std::vector<device::Device>> to_devices(const std::string& text);

Model to_model(nb::handle model);

/// A constant of the input `name`: a text, or a copy of a numpy array.
Result<graph::InputValue> to_input_value(const std::string& name, nb::handle value);

/// A model and all that split() may be told. \pre the caller holds the GIL.
Result<SplitRequest> to_request(nb::handle model, const Options& options);

/// \error kInvalidArgument  several ways are given, or a pin names no device.
Result<partition::SplitBy> to_split_by(const SplitRequest& request);

/// Starts a package with the stream's options in its plan.
Status start(plan::Package package, RunOptions run, Made& made);

/// What took another's place, or why not; filled on a thread of its own.
struct Replaced {
  std::optional<Error> error;
  plan::Package package;
  std::vector<std::string> warnings;
  std::function<bool()> abandoned;  ///< Asked while it starts.
};

/// Lets a package take the place of what runs, with the options that this was started with.
Status replace(pipeline::Pipeline& running, const std::filesystem::path& path,
               const RunOptions& run, Replaced& replaced);

/// Runs it on a thread of its own. \returns the pipeline and the warnings.
nb::object make_aside(std::function<Status(Made&, const Abandoned&)> work);

}  // namespace penstock::python
