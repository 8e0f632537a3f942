"""A provider that answers at once: Chat Completions on 127.0.0.1, in a process of its own.

The model's name says what it answers: `loop-N` makes N tool calls one after the other and says so; `text-N` answers
with N text deltas. It prints its port, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from functools import cache

HEAD_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
HEAD_SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def _message(model: str, step: int) -> dict[str, object]:
    kind, _, count = model.partition("-")
    if kind == "loop" and step < int(count):
        arguments = json.dumps({"a": step, "b": 1})
        call = {"id": f"call_{step}", "type": "function", "function": {"name": "add", "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": "assistant", "content": "The loop is done."}


def _chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "mock",
        "system_fingerprint": "fp_1",
        "choices": [choice],
    }
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


@cache
def _json_answer(model: str, step: int) -> bytes:
    message = _message(model, step)
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "mock", "choices": [choice]}
    data = json.dumps({**body, "usage": USAGE}).encode()
    return HEAD_JSON % len(data) + data


@cache
def _stream_answer(model: str, step: int) -> bytes:
    kind, _, count = model.partition("-")
    chunks = [_chunk({"role": "assistant", "content": ""})]
    message = _message(model, step)
    if kind == "text":
        chunks += [_chunk({"content": f"word{n} "}) for n in range(int(count))]
        finish = "stop"
    elif "tool_calls" in message:
        call = message["tool_calls"][0]  # type: ignore[index]
        text = call["function"]["arguments"]
        first = {"index": 0, **call, "function": {"name": "add", "arguments": ""}}
        chunks.append(_chunk({"tool_calls": [first]}))
        for at in range(0, len(text), 6):
            chunks.append(_chunk({"tool_calls": [{"index": 0, "function": {"arguments": text[at : at + 6]}}]}))
        finish = "tool_calls"
    else:
        chunks += [_chunk({"content": piece}) for piece in ("The ", "loop ", "is ", "done.")]
        finish = "stop"
    chunks.append(_chunk({}, finish))
    usage = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "mock", "choices": [], "usage": USAGE}
    chunks.append(b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n")
    body = b"".join(chunks)
    pieces = [body[at : at + 60_000] for at in range(0, len(body), 60_000)]
    return HEAD_SSE + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
            )
            body = await reader.readexactly(length)
            model = body.split(b'"model":', 1)[1].lstrip()[1:].split(b'"', 1)[0].decode()
            step = body.count(b'"tool_call_id"')
            streamed = b'"stream":true' in body.replace(b" ", b"")
            writer.write(_stream_answer(model, step) if streamed else _json_answer(model, step))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def _main() -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True).start()
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(_main())
