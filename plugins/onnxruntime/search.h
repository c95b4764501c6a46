// Where an ONNX Runtime library may lie on this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock::ort {

/// One place of the search: what to call it, and the libraries found there (newest first).
struct Place {
  std::string name;  ///< "PENSTOCK_ENGINE_PATH", "the Python environment '/x/.venv'", ...
  std::vector<std::filesystem::path> libraries;
};

/// All places, in the order they are tried. PENSTOCK_ONNXRUNTIME, where set, is the only one: what
/// the user names is used or refused, never silently replaced.
std::vector<Place> engine_places();

}  // namespace penstock::ort
