// Ready-made functions: pictures, scores, boxes and sounds around a network, found by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/function/function.h"

namespace penstock::ready {

class Values;

/// What a function may be told. docs/ready_functions.md is checked against these.
struct Setting {
  enum class Kind {
    kInteger,  ///< "3", from `lowest` to `highest`.
    kNumber,   ///< "0.45", the same.
    kNumbers,  ///< "0.5,0.5,0.5": `least` of them or more, each in these bounds.
    kSize,     ///< "480,640": height and width; one number is both.
    kFlag,     ///< "true" or "false".
    kWord,     ///< One of `words`.
    kShape,    ///< "1,1000" or "n<=300,4": dimensions, an open one with its bound.
    kReshape,  ///< "1,-1,512": dimensions, one of them perhaps -1, which is what the others leave.
  };

  std::string_view name;
  Kind kind = Kind::kInteger;
  std::string_view usual;  ///< What it is where nobody says; empty: it has to be said.
  std::string_view says;   ///< One sentence.
  double lowest = 0, highest = 1e9;
  std::string_view words;  ///< "nearest|linear|area"
  std::size_t least = 1;   ///< Of kNumbers.
  std::string_view shown;  ///< What documents show where it has to be said.
};

struct Declaration {
  std::string_view name;
  std::string_view says;  ///< What it makes of what, and the networks that want it.
  std::vector<Setting> settings;
  Result<function::Function> (*make)(const Values& values) = nullptr;
};

/// All there are, by family. They live as long as the process.
std::span<const Declaration> declarations();

/// One of them. \error kNotFound  no such function: names those that there are.
Result<const Declaration*> declared(std::string_view name);

/// The function `name`, with `settings` built in: it takes none when it is created. Its ports are
/// declared for these settings; it computes on the thread that calls it, and makes no other.
///
/// In a plan and in app::FunctionNode it is called function::kReadyPrefix + name, with the settings
/// as options. In pipeline::Options::functions it may stand as any other.
/// \error kNotFound         no such function, or setting: names those that there are.
/// \error kInvalidArgument  a setting is missing, or is nothing that it may be.
Result<function::Function> make(std::string_view name, const function::Settings& settings);

/// What a setting takes, for messages and documents: "a whole number from 1 to 4".
std::string expected(const Setting& setting);

}  // namespace penstock::ready
