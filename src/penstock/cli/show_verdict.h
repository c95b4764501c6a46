// What was found of a package's outputs, for people, for the log and as an exit code.
#pragma once

#include <string>

#include "penstock/measure/verify.h"
#include "penstock/plan/package.h"
#include "penstock/tensor/compare.h"

namespace penstock::cli {

/// What was compared and found of each output, and what was allowed; ends with the verdict.
std::string verdict_text(const measure::VerifyReport& report);

/// Sentences for who reads no table.
void log_findings(const measure::VerifyReport& report);

/// kOk, kFailed, kInconclusive, or that of an interrupt.
int verdict_code(const measure::VerifyReport& report);

/// What the package was built with, else the usual one.
Tolerance tolerance_of(const plan::Package& package);

}  // namespace penstock::cli
