// Which networks' runs on zeros had to be ended is kept until the process ends.
#include "penstock/pipeline/warm_up.h"

#include <set>

namespace penstock::pipeline {
namespace {

struct Known {
  std::mutex mutex;
  std::set<std::string> networks;
};

Known& known() {
  static Known all;
  return all;
}

}  // namespace

bool Endless::knows(const std::string& network) {
  const std::scoped_lock lock(known().mutex);
  return known().networks.contains(network);
}

void Endless::note(const std::string& network) {
  if (network.empty()) return;
  const std::scoped_lock lock(known().mutex);
  known().networks.insert(network);
}

}  // namespace penstock::pipeline
