// What a server calls itself, and which parts of the protocol it speaks.
#pragma once

#include <array>
#include <string_view>

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

/// A setting of Triton's, and its value.
struct TraceSetting {
  std::string_view name, value;
};

/// Clients have no traces made: what Triton tells where that is so.
inline constexpr std::array kTraceSettings = {
    TraceSetting{"trace_file", ""}, TraceSetting{"trace_level", "OFF"},
    TraceSetting{"trace_rate", "1000"}, TraceSetting{"trace_count", "-1"},
    TraceSetting{"log_frequency", "0"}};

}  // namespace penstock::serve
