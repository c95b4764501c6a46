// Functions of a Python module: which interpreter runs them, and how the package offers itself.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/function/function.h"

namespace penstock::function {

/// Makes functions of a module's file. Any thread, without Python's lock. \error as
/// load_python_module().
using ModuleLoader = Result<std::vector<Function>> (*)(const std::filesystem::path& file);

/// Called by Python's package while it is imported: from then on modules of this process are its
/// own business.
void offer_module_loader(ModuleLoader loader);

/// The functions that a Python module declares (docs/functions.md). In a process without Python the
/// first call loads libpython, of PENSTOCK_PYTHON, VIRTUAL_ENV, the environment that Penstock is
/// installed in, a `.venv` above its library, CONDA_PREFIX or $PATH, the first of them that is
/// there, and begins its interpreter, which lasts until end_python().
/// \error kUnavailable         no Python, no libpython, or none that has this Penstock's package;
///                             says which was taken and why, and what to do.
/// \error kFailedPrecondition  the module raises: the exception, with its file and line; or it
///                             declares no function.
/// \error kInvalidArgument     a function's types are wrong.
Result<std::vector<Function>> load_python_module(const std::filesystem::path& file);

/// Ends the interpreter that load_python_module() began, if it did, as Python ends its own: joins
/// the modules' threads, calls what they registered with `atexit`, closes their files. Once, when
/// nothing calls Python any more; a call that was left behind sleeps from then on.
/// `late` is called, on another thread, if that takes longer than `patience`; it ends the process.
void end_python(std::chrono::milliseconds patience, const std::function<void()>& late);

}  // namespace penstock::function
