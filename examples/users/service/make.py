"""Makes the network of the service: eight numbers in, their softmax out. Nothing is trained."""

import numpy as np
import onnx
from onnx import numpy_helper

model = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["": 17]>
classify (float[1,8] x) => (float[1,4] share) {
    scores = MatMul (x, weights)
    share = Softmax (scores)
}""")
weights = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
model.graph.initializer.append(numpy_helper.from_array(weights, "weights"))
onnx.checker.check_model(model, full_check=True)
onnx.save(model, "classify.onnx")
print("classify.onnx")
