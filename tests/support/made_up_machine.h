// A machine that hwloc makes up: what the environment says, while it lives.
#pragma once

#include <cstdlib>

namespace penstock {

class MadeUpMachine {
 public:
  /// As of hwloc's synthetic topologies: "pack:2 numa:1 l3:1 core:32 pu:1".
  explicit MadeUpMachine(const char* description) { setenv(kVariable, description, 1); }
  ~MadeUpMachine() { unsetenv(kVariable); }
  MadeUpMachine(const MadeUpMachine&) = delete;
  MadeUpMachine& operator=(const MadeUpMachine&) = delete;

 private:
  static constexpr const char* kVariable = "HWLOC_SYNTHETIC";
};

}  // namespace penstock
