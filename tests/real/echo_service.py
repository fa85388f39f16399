"""A service of a job's own, for tests: it answers with the headers that it got, and echoes WebSocket messages."""

import base64
import hashlib
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Of RFC 6455, 1.3."""


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.echo_frames()
            return
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("Set-Cookie", "drumbeat-stolen=1")
        self.send_header("Set-Cookie", "own=1; Domain=corp.example")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        left = int(self.headers["Content-Length"])
        while left and (piece := self.rfile.read(min(left, 1 << 16))):
            left -= len(piece)
        body = self.headers["Content-Length"].encode()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    def echo_frames(self) -> None:
        key = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + MAGIC).encode()).digest()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade")):
            self.send_header(name, value)
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(key).decode())
        self.end_headers()
        while len(head := self.rfile.read(2)) == 2 and head[0] & 15 != 8:
            size = head[1] & 127
            more = self.rfile.read({126: 2, 127: 8}.get(size, 0))
            mask = self.rfile.read(4)
            data = self.rfile.read(int.from_bytes(more) if more else size)
            plain = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
            self.wfile.write(bytes([head[0], size]) + more + plain)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(os.environ["DRUMBEAT_SERVICE_PORT"])), Echo).serve_forever()
