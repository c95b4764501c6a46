// What a server calls itself, and which parts of the protocol it speaks.
#pragma once

#include <array>

namespace penstock::serve {

inline constexpr const char* kServerName = "penstock";

inline constexpr std::array kExtensions = {"classification",
                                           "sequence",
                                           "sequence(string_id)",
                                           "model_repository",
                                           "model_repository(unload_dependents)",
                                           "schedule_policy",
                                           "model_configuration",
                                           "system_shared_memory",
                                           "binary_tensor_data",
                                           "parameters",
                                           "statistics",
                                           "trace",
                                           "logging"};

}  // namespace penstock::serve
