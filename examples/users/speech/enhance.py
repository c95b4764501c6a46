"""Takes the noise out of noisy.wav: a function, a network that remembers, and a function, as one pipeline."""

import itertools
import sys
import wave

import numpy as np

import penstock
from penstock import io

BLOCK, HOP, RATE = 512, 256, 16000
WINDOW = np.sin(np.pi * (np.arange(BLOCK) + 0.5) / BLOCK).astype(np.float32)


def spectrum(block):
    bins = np.fft.rfft(block * WINDOW)
    return {"loudness": np.abs(bins).astype(np.float32)[None], "phase": np.angle(bins).astype(np.float32)}


def samples(clean, phase, last):
    block = np.fft.irfft(clean[0] * np.exp(1j * phase)).astype(np.float32) * WINDOW
    return {"samples": last + block[:HOP], "rest": block[HOP:]}


app = penstock.App("enhance")
app.input("block")
app.function(
    "spectrum", spectrum, {"block": "f32[512]"}, {"loudness": "f32[1,257]", "phase": "f32[257]"}, reads="block"
)
app.network("denoise", "denoise.onnx", reads={"sound": "spectrum.loudness"})
app.state("denoise.noise_out", "denoise.noise", initial="start.npy")
app.function(
    "samples",
    samples,
    {"clean": "f32[1,257]", "phase": "f32[257]", "last": "f32[256]"},
    {"samples": "f32[256]", "rest": "f32[256]"},
    reads={"clean": "denoise.clean", "phase": "spectrum.phase"},
)
app.state("samples.rest", "samples.last")
app.output("samples", "samples.samples")

try:
    noisy = io.wav("noisy.wav", BLOCK, HOP, sample_rate=RATE)
    with app.start() as pipeline:
        # What overlaps comes out with the next block: behind the last one there is silence.
        blocks = itertools.chain(noisy, [np.zeros(BLOCK, np.float32)])
        clean = np.concatenate([frame["samples"].copy() for frame in pipeline.stream(blocks)])
    with wave.open("noisy.wav", "rb") as file:
        length = file.getnframes()
    with wave.open("clean.wav", "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((clean[:length].clip(-1, 1) * 32767).astype("<i2").tobytes())
except (OSError, EOFError, wave.Error, penstock.PenstockError) as error:
    sys.exit(f"enhance: {error}")

if length < 3.8 * RATE:
    print(f"clean.wav is written, and compared where noisy.wav is 3.8 s long or more; this is {length / RATE:.1f} s")
    sys.exit()
noisy = next(iter(io.wav("noisy.wav", 4 * RATE, 4 * RATE))).reshape(-1)
SILENCE = 1e-10  # -100 dB, below the steps of 16 bits: the logarithm of nothing is no number.
pause, voice = slice(int(3.2 * RATE), int(3.8 * RATE)), slice(int(2.2 * RATE), int(2.8 * RATE))
for name, part in (("the pause", pause), ("the voice", voice)):
    before, after = (10 * np.log10(np.square(sound[part]).mean() + SILENCE) for sound in (noisy, clean))
    print(f"{name}: {before:.0f} dB before, {after:.0f} dB after")
