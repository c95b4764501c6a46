"""Makes a network that takes steady noise out of sound, its first state, and a noisy recording. Nothing is trained."""

import wave

import numpy as np
import onnx
from onnx import numpy_helper

# 'noise' is what the network remembers: how loud the noise is in each of 257 bands. It follows quickly where
# the sound is quieter, and slowly where it is louder, as speech has pauses and noise has none.
model = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["": 17]>
denoise (float[1,257] sound, float[1,257] noise) => (float[1,257] clean, float[1,257] noise_out) {
    kept = Mul (noise, slow)
    fresh = Mul (sound, fast)
    quieter = Add (kept, fresh)
    louder = Mul (noise, growth)
    noise_out = Min (quieter, louder)
    twice = Mul (noise_out, two)
    difference = Sub (sound, twice)
    floor = Mul (sound, little)
    clean = Max (difference, floor)
}""")
numbers = {"slow": 0.9, "fast": 0.1, "growth": 1.01, "two": 2.0, "little": 0.1}
model.graph.initializer.extend(numpy_helper.from_array(np.float32(value), name) for name, value in numbers.items())
onnx.checker.check_model(model, full_check=True)
onnx.save(model, "denoise.onnx")
np.save("start.npy", np.full((1, 257), 10, np.float32))  # Louder than any noise: it falls at once.

time = np.arange(4 * 16000) / 16000
speaking = np.sin(2 * np.pi * 0.5 * time) > 0  # A second of voice, a second of pause.
voice = 0.3 * np.sin(2 * np.pi * 220 * time) * speaking
noisy = voice + 0.05 * np.random.default_rng(0).standard_normal(len(time))
with wave.open("noisy.wav", "wb") as file:
    file.setparams((1, 2, 16000, 0, "NONE", ""))
    file.writeframes((noisy * 32767).astype("<i2").tobytes())
print("denoise.onnx, start.npy, noisy.wav")
