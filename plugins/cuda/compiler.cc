// Drives NVRTC.
#include "compiler.h"

#include <array>

namespace penstock::cuda {
namespace {

std::string log_of(const Nvrtc& nvrtc, NvrtcProgram program) {
  std::size_t size = 0;
  if (nvrtc.log_size(program, &size) != 0 || size == 0) return "no log";
  std::string log(size, '\0');
  if (nvrtc.log(program, log.data()) != 0) return "no log";
  return log;
}

Result<std::string> compile_program(const Nvrtc& nvrtc, NvrtcProgram program,
                                    const std::string& architecture) {
  const std::string target = "--gpu-architecture=" + architecture;
  const std::array<const char*, 2> options = {target.c_str(), "--std=c++17"};
  if (nvrtc.compile(program, static_cast<int>(options.size()), options.data()) != 0) {
    return internal_error("a generated kernel does not compile: ", log_of(nvrtc, program));
  }
  std::size_t size = 0;
  PENSTOCK_CHECK_OK(check_library(nvrtc.code_size(program, &size), "NVRTC", "size of the code"));
  std::string code(size, '\0');
  PENSTOCK_CHECK_OK(check_library(nvrtc.code(program, code.data()), "NVRTC", "code"));
  return code;
}

}  // namespace

Result<std::string> compile(const Nvrtc& nvrtc, const std::string& source,
                            const std::string& architecture) {
  NvrtcProgram program = nullptr;
  PENSTOCK_CHECK_OK(
      check_library(nvrtc.create(&program, source.c_str(), "penstock.cu", 0, nullptr, nullptr),
                    "NVRTC", "program"));
  auto code = compile_program(nvrtc, program, architecture);
  nvrtc.destroy(&program);
  return code;
}

}  // namespace penstock::cuda
