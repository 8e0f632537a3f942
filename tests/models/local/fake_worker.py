"""Stands in for the process that runs llama.cpp. Its first argument says how it behaves; the others are files."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

mode, starts = sys.argv[1], sys.argv[2]
with open(starts, "a") as file:
    file.write(f"{os.getpid()}\n")

settings = json.loads(sys.stdin.buffer.readline())
print(f"serving {settings['name']} with n_ctx {settings['n_ctx']}", file=sys.stderr, flush=True)


def end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    if mode == "stubborn":
        threading.Event().wait()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()

if mode == "corrupt":
    print("error: tensor data is cut off", file=sys.stderr, flush=True)
    sys.exit(1)
if mode == "babble":
    print("hello", flush=True)
if mode == "mute":
    threading.Event().wait()

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "model": settings["name"],
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
}


def delta(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": reason}
    return (
        b"data: " + json.dumps({"id": "1", "object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"
    )


class Handler(BaseHTTPRequestHandler):
    health_checks = 0

    def do_GET(self) -> None:
        Handler.health_checks += 1
        ready = mode != "never" and (mode != "slow" or Handler.health_checks > 2)
        self.reply(200 if ready else 503, b"{}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers.get("authorization") != f"Bearer {settings['key']}":
            self.reply(401, b'{"error": {"message": "Invalid API Key", "code": 401}}')
        elif "overflow" in json.dumps(body["messages"]):
            error = {"code": 400, "message": "too long", "type": "exceed_context_size_error"}
            self.reply(400, json.dumps({"error": error}).encode())
        elif "break" in json.dumps(body["messages"]):
            self.begin("text/event-stream")
            error = {"code": 500, "message": "output that does not match the expected format", "type": "server_error"}
            self.wfile.write(delta("hel") + b"data: " + json.dumps({"error": error}).encode() + b"\n\n")
        elif "die" in json.dumps(body["messages"]):
            if body.get("stream"):
                self.begin("text/event-stream")
                self.wfile.write(delta("hel"))
                self.wfile.flush()
            print("fatal: out of luck", file=sys.stderr, flush=True)
            os.abort() if mode == "aborting" else os._exit(3)
        elif body.get("stream"):
            self.begin("text/event-stream")
            self.wfile.write(delta("hel") + delta("lo", "stop") + b"data: [DONE]\n\n")
        else:
            self.reply(200, json.dumps(ANSWER).encode())

    def begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"port": server.server_port}), flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
while True:
    time.sleep(60)
