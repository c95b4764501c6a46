// Begins the interpreter of an environment: libpython by dlopen, Python's stable interface by name.
#include "penstock/function/interpreter.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iomanip>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/backend/engine_places.h"
#include "penstock/base/option_name.h"
#include "penstock/base/thread.h"
#include "penstock/base/version.h"

namespace penstock::function {
namespace {

struct Offered {
  std::mutex mutex;  // Guards the loader.
  ModuleLoader loader = nullptr;
};

Offered& offered() {
  static Offered offered;
  return offered;
}

ModuleLoader offered_loader() {
  const std::scoped_lock lock(offered().mutex);
  return offered().loader;
}

std::string variable_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// What is called of libpython. Its objects and its states of threads stay what they are there.
struct PythonApi {
  int (*is_initialized)() = nullptr;
  wchar_t* (*decode)(const char*, std::size_t*) = nullptr;
  void (*set_program_name)(const wchar_t*) = nullptr;
  void (*initialize)(int signal_handlers) = nullptr;
  int (*finalize)() = nullptr;
  int (*run)(const char* code) = nullptr;
  void* (*import)(const char* module) = nullptr;
  void (*fetch_error)(void** type, void** value, void** traceback) = nullptr;
  void (*normalize_error)(void** type, void** value, void** traceback) = nullptr;
  void* (*to_str)(void* object) = nullptr;
  const char* (*to_utf8)(void* str, std::ptrdiff_t* bytes) = nullptr;
  void* (*save_thread)() = nullptr;
  int (*take_lock)() = nullptr;
  void (*release_lock)(int state) = nullptr;
};

Result<PythonApi> api_of(void* library) {
  PythonApi api;
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  find("Py_IsInitialized", api.is_initialized);
  find("Py_DecodeLocale", api.decode);
  find("Py_SetProgramName", api.set_program_name);
  find("Py_InitializeEx", api.initialize);
  find("Py_FinalizeEx", api.finalize);
  find("PyRun_SimpleString", api.run);
  find("PyImport_ImportModule", api.import);
  find("PyErr_Fetch", api.fetch_error);
  find("PyErr_NormalizeException", api.normalize_error);
  find("PyObject_Str", api.to_str);
  find("PyUnicode_AsUTF8AndSize", api.to_utf8);
  find("PyEval_SaveThread", api.save_thread);
  find("PyGILState_Ensure", api.take_lock);
  find("PyGILState_Release", api.release_lock);
  if (missing.empty()) return api;
  return make_error(Code::kUnavailable, "its library has no ", missing,
                    "; expected Python 3.11 or later");
}

/// An interpreter, and why it is the one.
struct Python {
  std::string named_by;
  std::filesystem::path program;
};

/// The folder of the library that holds this function.
std::filesystem::path own_library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_library_folder), &info) == 0) return {};
  std::error_code ignored;
  return std::filesystem::canonical(info.dli_fname, ignored).parent_path();
}

/// Of a wheel: `prefix/lib/python3.11/site-packages/penstock/_lib`.
std::filesystem::path own_environment() {
  const auto packages = own_library_folder().parent_path().parent_path();
  if (packages.filename() != "site-packages") return {};
  return packages.parent_path().parent_path().parent_path();
}

/// As a shell finds it; empty where it is not there.
std::filesystem::path found_in_path(const std::string& name) {
  std::istringstream folders(variable_of("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    auto program = std::filesystem::path(folder) / name;
    std::error_code ignored;
    if (!folder.empty() && std::filesystem::exists(program, ignored)) return program;
  }
  return {};
}

/// What a variable names is used or refused, never silently replaced.
Result<Python> find_python() {
  const auto in = [](const std::filesystem::path& prefix) { return prefix / "bin/python3"; };
  std::error_code ignored;
  if (const auto named = variable_of("PENSTOCK_PYTHON"); !named.empty()) {
    const bool is_path = named.find('/') != named.npos;
    auto program = is_path ? std::filesystem::path(named) : found_in_path(named);
    if (!program.empty()) return Python{"PENSTOCK_PYTHON", std::move(program)};
    return make_error(Code::kUnavailable, "no program '", named,
                      "' in $PATH, which PENSTOCK_PYTHON names; give its path");
  }
  if (const auto prefix = variable_of("VIRTUAL_ENV"); !prefix.empty()) {
    return Python{"VIRTUAL_ENV", in(prefix)};
  }
  const auto own = own_environment();
  if (!own.empty() && std::filesystem::exists(in(own), ignored)) {
    return Python{"the environment of this Penstock", in(own)};
  }
  for (const auto& above : backend::environments_above(own_library_folder())) {
    if (std::filesystem::exists(in(above), ignored)) return Python{"Penstock's folder", in(above)};
  }
  if (const auto prefix = variable_of("CONDA_PREFIX"); !prefix.empty()) {
    return Python{"CONDA_PREFIX", in(prefix)};
  }
  if (auto program = found_in_path("python3"); !program.empty()) {
    return Python{"PATH", std::move(program)};
  }
  return make_error(Code::kUnavailable,
                    "no Python here that could run it; install one with the package penstock, and "
                    "name its environment in VIRTUAL_ENV");
}

/// `python3.11` of the program's own name has libpython3.11: beside it, or the system's.
Result<void*> open_libpython(const std::filesystem::path& program) {
  std::error_code error;
  const auto real = std::filesystem::canonical(program, error);
  if (error) return make_error(Code::kUnavailable, "no such program");
  if (real.filename().string().find('.') == std::string::npos) {
    return make_error(Code::kUnavailable, "'", real.string(),
                      "' starts another Python, which cannot be told; name that one, whose file is "
                      "called such as python3.11");
  }
  const std::string file = "lib" + real.filename().string() + ".so.1.0";
  const auto beside = real.parent_path() / "../lib" / file;
  for (const auto& library : {beside, std::filesystem::path(file)}) {
    // Global: the extension modules that Python loads find its symbols so.
    if (void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
    const std::string reason = dlerror();
    if (std::filesystem::exists(library, error)) return make_error(Code::kUnavailable, reason);
  }
  return make_error(
      Code::kUnavailable, "it has no library ", file,
      " beside it or in the system, by which programs run Python; install it (Debian: "
      "lib",
      real.filename().string(), ")");
}

/// Bytes as Python's source has them, whatever they are.
std::string bytes_literal(const std::string& bytes) {
  std::ostringstream text;
  text << "b'" << std::hex << std::setfill('0');
  for (const unsigned char byte : bytes) text << "\\x" << std::setw(2) << unsigned{byte};
  return text.str() + "'";
}

/// The package of a build tree lies beside the library; its module is there once it was built.
struct TreePackage {
  std::filesystem::path folder = own_library_folder() / "python";  ///< What Python is told.
  bool is_there = false;
  bool is_built = false;
};

TreePackage tree_package() {
  TreePackage package;
  std::error_code ignored;
  for (const auto& file :
       std::filesystem::directory_iterator(package.folder / "penstock", ignored)) {
    const auto name = file.path().filename();
    package.is_there |= name == "__init__.py";
    package.is_built |= name.string().starts_with("_core.") && name.extension() == ".so";
  }
  return package;
}

/// What a function prints must not get among what the program prints.
std::string first_lines() {
  std::string lines = "import os, sys\nsys.stdout = sys.stderr\n";
  const auto package = tree_package();
  if (package.is_there && package.is_built) {
    lines += "sys.path.insert(0, os.fsdecode(" + bytes_literal(package.folder.string()) + "))\n";
  }
  return lines;
}

const char* how_to_have_the_package() {
  const auto package = tree_package();
  return package.is_there && !package.is_built
             ? "; build the target penstock_python in this tree, or install Penstock's wheel there "
               "(docs/install.md)"
             : "; install Penstock's wheel there (docs/install.md)";
}

std::string exception_of(const PythonApi& api) {
  std::array<void*, 3> error{};
  api.fetch_error(&error[0], &error[1], &error[2]);
  api.normalize_error(&error[0], &error[1], &error[2]);
  void* text = error[1] == nullptr ? nullptr : api.to_str(error[1]);
  std::ptrdiff_t bytes = 0;
  const char* utf8 = text == nullptr ? nullptr : api.to_utf8(text, &bytes);
  return utf8 == nullptr ? "an exception without a text" : utf8;
}

/// Whether `program` finds its own library of modules: Py_InitializeEx() ends the process where it
/// does not.
Status check_begins(const std::filesystem::path& program) {
  std::string name = program.string(), option = "-c", code = "import encodings";
  std::array<char*, 4> arguments{name.data(), option.data(), code.data(), nullptr};
  pid_t child = 0;
  int status = posix_spawn(&child, name.c_str(), nullptr, nullptr, arguments.data(), environ);
  if (status != 0) return make_error(Code::kUnavailable, std::strerror(status));
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return {};
  return make_error(Code::kUnavailable, "it cannot begin: look what '", name, " -c \"", code,
                    "\"' says");
}

/// Begins the interpreter as `program` would on its own, but without its handlers of signals.
void begin_interpreter(const PythonApi& api, const std::filesystem::path& program) {
  // Kept by Python.
  api.set_program_name(api.decode(program.c_str(), nullptr));
  api.initialize(0);
  api.run(first_lines().c_str());
  api.save_thread();
}

/// \pre an interpreter stands.
Status import_package(const PythonApi& api) {
  const int state = api.take_lock();
  Status imported;
  if (api.import("penstock") == nullptr) {
    imported = make_error(Code::kUnavailable, exception_of(api), how_to_have_the_package());
  }
  api.release_lock(state);
  return imported;
}

/// Of a library that holds Python: its interpreter stands.
bool stands(void* library) {
  const auto api = api_of(library);
  return api && api->is_initialized() != 0;
}

Status begin_and_import(const Python& python) {
  PENSTOCK_TRY(void* const library, open_libpython(python.program));
  PENSTOCK_TRY(const auto api, api_of(library));
  if (!stands(library)) {
    PENSTOCK_CHECK_OK(check_begins(python.program));
    begin_interpreter(api, python.program);
  }
  const auto spoken = language();
  Status imported = import_package(api);
  set_language(spoken);  // Who called is no user of Python, whatever the package says.
  return imported;
}

/// Python, before 3.13, would wait for the thread that began it, which may be over, as for a
/// module's.
constexpr const char* kAwaitOthersAlone = R"(
import threading
begun = threading.main_thread()
if begun.ident != threading.get_ident() and hasattr(threading, '_shutdown_locks'):
    threading._shutdown_locks.discard(begun._tstate_lock)
)";

/// Here, by start_python(); tried again where it failed.
std::optional<Python>& begun_python() {
  static std::optional<Python> begun;
  return begun;
}

/// In the process of a Python, or in one that the user's environment gives. One thread at a time.
Status start_python() {
  auto& begun = begun_python();
  if (!begun && stands(RTLD_DEFAULT)) {
    PENSTOCK_TRY(const auto api, api_of(RTLD_DEFAULT));
    return import_package(api);
  }
  if (!begun) {
    PENSTOCK_TRY(begun, find_python());
  }
  Status started = begin_and_import(*begun);
  if (started) return started;
  Error why =
      std::move(started)
          .error()
          .within(concat("Python '", begun->program.string(), "' (from ", begun->named_by, ")"))
          .adding("; PENSTOCK_PYTHON=PROGRAM takes another Python");
  if (!stands(RTLD_DEFAULT)) begun.reset();
  return why;
}

Result<ModuleLoader> find_loader() {
  static std::mutex starting;
  const std::scoped_lock lock(starting);
  if (const auto loader = offered_loader()) return loader;
  PENSTOCK_CHECK_OK(start_python());
  if (const auto loader = offered_loader()) return loader;
  return make_error(Code::kUnavailable,
                    "the package penstock that Python imported is not of this Penstock; install "
                    "the wheel of this version, ",
                    version());
}

}  // namespace

void offer_module_loader(ModuleLoader loader) {
  const std::scoped_lock lock(offered().mutex);
  offered().loader = loader;
}

Result<std::vector<Function>> load_python_module(const std::filesystem::path& file) {
  auto loader = offered_loader();
  if (loader == nullptr) {
    PENSTOCK_TRY(loader, find_loader());
  }
  return loader(file);
}

void end_python(std::chrono::milliseconds patience, const std::function<void()>& late) {
  const auto api = api_of(RTLD_DEFAULT);
  if (!begun_python() || !api || api->is_initialized() == 0) return;
  std::promise<void> ended;
  std::thread watch;
  const Status watched = start_thread(watch, [&late, patience, end = ended.get_future()] {
    if (end.wait_for(patience) == std::future_status::timeout) late();
  });
  if (!watched) return;  // Nothing would end what never ends.
  api->take_lock();
  api->run(kAwaitOthersAlone);
  api->finalize();
  ended.set_value();
  watch.join();
}

}  // namespace penstock::function
