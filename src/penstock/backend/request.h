// What every CPU engine asks of a CompileRequest before it looks at the model.
#pragma once

#include <cfenv>
#include <string>
#include <string_view>

#include "penstock/backend/backend.h"

namespace penstock::backend {

/// \error kUnimplemented    another device than CPUs of this machine.
/// \error kInvalidArgument  no thread; neither a file nor bytes.
/// \error kNotFound         no such file.
Status check_on_cpu(const CompileRequest& request, std::string_view backend);

/// "f32", "bf16", "f16", "i8"
std::string_view to_string(Precision precision);
/// \error kInvalidArgument  shows those that there are.
Result<Precision> parse_precision(std::string_view name);

/// The request with its precision taken out of the options, where it stands there.
/// \error as parse_precision()
Result<CompileRequest> with_precision(CompileRequest request);

/// Says which model and whose it is, where the error does not.
Error in_model(Error error, const CompileRequest& request);

/// Engines set the floating-point mode of the thread that compiles, and leave it so.
class KeptFloatingPointMode {
 public:
  KeptFloatingPointMode() { std::fegetenv(&mode_); }
  ~KeptFloatingPointMode() { std::fesetenv(&mode_); }
  KeptFloatingPointMode(const KeptFloatingPointMode&) = delete;
  KeptFloatingPointMode& operator=(const KeptFloatingPointMode&) = delete;

 private:
  std::fenv_t mode_;
};

}  // namespace penstock::backend
