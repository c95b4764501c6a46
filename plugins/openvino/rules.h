// Rules: what OpenVINO may be given, as docs/rules.md has it.
#pragma once

#include <string>

namespace penstock::openvino {

/// Found by trying: every operator case of ONNX that these rules allow passes, but for those listed
/// with their reasons in tests/operator_cases/exceptions_openvino.txt.
std::string rules();

}  // namespace penstock::openvino
