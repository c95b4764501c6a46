"""Makes a voice detector that takes its sample rate as an input, as public ones do, and a recording for it."""

import wave

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def branch(name, step):
    """How loud is the block, of a sound with this many samples a second?"""
    return onnx.parser.parse_graph(f"""
        {name} () => (float[1,1] {name}_loudness) {{
            {name}_step = Constant <value_int = {step}> ()
            {name}_steps = Reshape ({name}_step, one)
            {name}_part = Slice (sound, start, end, axis, {name}_steps)
            {name}_square = Mul ({name}_part, {name}_part)
            {name}_loudness = ReduceMean <axes = [1], keepdims = 1> ({name}_square)
        }}""")


model = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["": 17]>
voice (float[1,512] sound, float[1,1] memory, int64 sr) => (float[1,1] voice, float[1,1] memory_out) {
    high = Equal (sr, sixteen)
    kept = Mul (memory, slow)
    fresh = Mul (loudness, fast)
    memory_out = Add (kept, fresh)
    scaled = Mul (memory_out, gain)
    shifted = Sub (scaled, threshold)
    voice = Sigmoid (shifted)
}""")
choice = helper.make_node("If", ["high"], ["loudness"], then_branch=branch("wide", 1), else_branch=branch("narrow", 2))
model.graph.node.insert(1, choice)
model.graph.value_info.append(helper.make_tensor_value_info("loudness", TensorProto.FLOAT, [1, 1]))
constants = {
    "sixteen": np.int64(16000),
    "one": np.array([1]),
    "start": np.array([0]),
    "end": np.array([512]),
    "axis": np.array([1]),
    "slow": np.float32(0.7),
    "fast": np.float32(0.3),
    "gain": np.float32(1000),
    "threshold": np.float32(5),
}
model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
onnx.checker.check_model(model, full_check=True)
onnx.save(model, "voice.onnx")

time = np.arange(2 * 16000) / 16000
sound = 0.2 * np.sin(2 * np.pi * 200 * time) * ((time > 0.5) & (time < 1.2))
with wave.open("speech.wav", "wb") as file:
    file.setparams((1, 2, 16000, 0, "NONE", ""))
    file.writeframes((sound * 32767).astype("<i2").tobytes())
print("voice.onnx and speech.wav")
