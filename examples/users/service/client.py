"""Asks the service a hundred times on each of four connections: client.py PORT."""

import socket
import sys
import threading

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("classify.onnx", providers=["CPUExecutionProvider"])
right = []


def ask(seed):
    random = np.random.default_rng(seed)
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as service, service.makefile("rb") as answers:
        for _ in range(100):
            x = random.standard_normal((1, 8)).astype(np.float32)
            service.sendall(x.tobytes())
            share = np.frombuffer(answers.read(16), np.float32)
            right.append(np.allclose(share, session.run(None, {"x": x})[0], atol=1e-5))


threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"{sum(right)} of {len(right)} answers are right")
