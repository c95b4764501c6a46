"""A camera on the network: an RTSP server on loopback. Pictures are RTP/JPEG (RFC 2435), over the connection itself."""

import re
import socket
import struct
import threading
import time
from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

CLOCK = 90_000  # Ticks of RTP a second, of every video.
SESSION = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\nm=video 0 RTP/AVP 26\r\na=control:video\r\n"
ROOM = 1400  # Bytes of a picture in a packet.


class Camera:
    """Sends picture(0), picture(1), ... at `rate` a second, to one client at a time, from when it asks until it leaves
    or close(); `most` pictures if that is given, then it hangs up."""

    def __init__(self, picture: Callable[[int], npt.NDArray[np.uint8]], rate: float, most: int | None = None) -> None:
        self._picture, self._rate, self._most = picture, rate, most
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"rtsp://127.0.0.1:{self._listener.getsockname()[1]}/camera"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                try:
                    self._answer(client)
                    self._play(client)
                except OSError:
                    pass  # It left.

    def _answer(self, client: socket.socket) -> None:
        """All requests until PLAY."""
        text = b""
        while True:
            while b"\r\n\r\n" not in text:
                if not (more := client.recv(4096)):
                    raise ConnectionError
                text += more
            request, _, text = text.partition(b"\r\n\r\n")
            method = request.split(b" ")[0]
            number = re.findall(r"CSeq: *(\d+)", request.decode())[0]
            head, body = f"RTSP/1.0 200 OK\r\nCSeq: {number}\r\n", ""
            if method == b"OPTIONS":
                head += "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n"
            elif method == b"DESCRIBE":
                body = SESSION
                head += f"Content-Type: application/sdp\r\nContent-Length: {len(body)}\r\n"
            elif method == b"SETUP":
                head += "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n"
            client.sendall((head + "\r\n" + body).encode())
            if method == b"PLAY":
                return

    def _play(self, client: socket.socket) -> None:
        begun, sequence, number = time.monotonic(), 0, 0
        while number != self._most and not self._ended.wait(max(0.0, begun + number / self._rate - time.monotonic())):
            ticks = int(number * CLOCK / self._rate)
            for payload, is_last in packets(self._picture(number)):
                data = struct.pack(">BBHII", 0x80, 26 | 0x80 * is_last, sequence % 65536, ticks, 1) + payload
                client.sendall(struct.pack(">cBH", b"$", 0, len(data)) + data)
                sequence += 1
            number += 1


def packets(picture: npt.NDArray[np.uint8]) -> list[tuple[bytes, bool]]:
    """Payloads of RTP/JPEG, and whether each is its picture's last. Red first; sizes are multiples of 8."""
    data = cv2.imencode(".jpg", picture[:, :, ::-1])[1].tobytes()
    tables, at = b"", 2
    while data[at + 1] != 0xDA:
        size = struct.unpack(">H", data[at + 2 : at + 4])[0]
        if data[at + 1] == 0xDB:
            segment = data[at + 4 : at + 2 + size]
            tables += b"".join(segment[i + 1 : i + 65] for i in range(0, len(segment), 65))
        at += 2 + size
    scan = data[at + 2 + struct.unpack(">H", data[at + 2 : at + 4])[0] : -2]
    height, width = picture.shape[:2]
    made = []
    for offset in range(0, len(scan), ROOM):
        head = struct.pack(">II", offset, 1 << 24 | 255 << 16 | width // 8 << 8 | height // 8)
        if offset == 0:
            head += struct.pack(">BBH", 0, 0, len(tables)) + tables
        made.append((head + scan[offset : offset + ROOM], offset + ROOM >= len(scan)))
    return made
