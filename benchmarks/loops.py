"""The loops that are compared: ours on either transport, and a plain one on the same HTTP client.

A plain loop does what any framework must and nothing else: no validation, no retries, no hooks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson

from loopwright import OpenAICompatible, StepCountIs, ToolLoopAgent, tool

SYSTEM = "You are a helpful assistant. Use the tools."
PROMPT = "Please run the loop until it is done."
SCHEMA = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


class Adder(ToolLoopAgent):
    """One tool, as many steps as it takes."""

    instructions = SYSTEM
    stop_when = StepCountIs(10_000)

    @tool
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


class Ours:
    """Loopwright."""

    def __init__(self, base_url: str, transport: str) -> None:
        self._base_url = base_url
        self._transport: Any = transport

    def _agent(self, model: str) -> Adder:
        return Adder(model=OpenAICompatible(model, base_url=self._base_url, api_key="x", transport=self._transport))

    async def run(self, model: str) -> int:
        """Run to the end; the number of steps."""
        return len((await self._agent(model).generate(PROMPT)).steps)

    async def stream(self, model: str) -> int:
        """Stream to the end; the number of text deltas."""
        count = 0
        async for part in self._agent(model).stream(PROMPT):
            if part.type == "text-delta":
                count += 1
        return count

    async def aclose(self) -> None:
        """The shared client closes with its event loop."""


class Plain:
    """A hand-written loop over an HTTP client."""

    def __init__(self, base_url: str) -> None:
        self.url = base_url + "/chat/completions"
        self.headers = {"authorization": "Bearer x", "content-type": "application/json"}

    async def _post(self, body: bytes) -> bytes:
        raise NotImplementedError

    def _chunks(self, body: bytes) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the client."""

    @staticmethod
    def _body(model: str, messages: list[Any], *, stream: bool) -> bytes:
        body: dict[str, Any] = {"model": model, "messages": messages, "tools": [SCHEMA]}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return orjson.dumps(body)

    @staticmethod
    def _answer(calls: list[Any], messages: list[Any]) -> None:
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for call in calls:
            arguments = orjson.loads(call["function"]["arguments"])
            content = str(arguments["a"] + arguments["b"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    async def run(self, model: str) -> int:
        """Run to the end; the number of steps."""
        messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
        steps = 0
        while True:
            steps += 1
            data = orjson.loads(await self._post(self._body(model, messages, stream=False)))
            calls = data["choices"][0]["message"].get("tool_calls")
            if not calls:
                return steps
            self._answer(calls, messages)

    async def stream(self, model: str) -> int:
        """Stream to the end; the number of text deltas."""
        messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
        count = 0
        while True:
            calls: list[Any] = []
            async for kind, value in self._events(self._body(model, messages, stream=True)):
                if kind == "text":
                    count += 1
                else:
                    calls = value
            if not calls:
                return count
            self._answer(calls, messages)

    async def _events(self, body: bytes) -> AsyncIterator[tuple[str, Any]]:
        calls: list[Any] = []
        pieces: list[list[str]] = []
        tail = b""
        async for chunk in self._chunks(body):
            lines = (tail + chunk).split(b"\n")
            tail = lines.pop()
            for line in lines:
                if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
                    continue
                choices = orjson.loads(line[5:])["choices"]
                if not choices:
                    continue
                delta = choices[0]["delta"]
                if delta.get("content"):
                    yield "text", delta["content"]
                for part in delta.get("tool_calls") or ():
                    if part["index"] == len(calls):
                        calls.append({key: value for key, value in part.items() if key != "index"})
                        pieces.append([])
                    pieces[part["index"]].append(part["function"]["arguments"])
        for call, text in zip(calls, pieces, strict=True):
            call["function"]["arguments"] = "".join(text)
        yield "calls", calls


class PlainHttpx2(Plain):
    """Over httpx2."""

    def __init__(self, base_url: str) -> None:
        import httpx2

        super().__init__(base_url)
        self._client = httpx2.AsyncClient(headers=self.headers, timeout=60)

    async def _post(self, body: bytes) -> bytes:
        return (await self._client.post(self.url, content=body)).content

    async def _chunks(self, body: bytes) -> AsyncIterator[bytes]:
        async with self._client.stream("POST", self.url, content=body) as response:
            async for chunk in response.aiter_bytes():
                yield chunk

    async def aclose(self) -> None:
        await self._client.aclose()


class PlainAiohttp(Plain):
    """Over aiohttp."""

    def __init__(self, base_url: str) -> None:
        import aiohttp

        super().__init__(base_url)
        self._session = aiohttp.ClientSession(headers=self.headers)

    async def _post(self, body: bytes) -> bytes:
        async with self._session.post(self.url, data=body) as response:
            return await response.read()

    async def _chunks(self, body: bytes) -> AsyncIterator[bytes]:
        async with self._session.post(self.url, data=body) as response:
            async for chunk in response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        await self._session.close()


def make(name: str, base_url: str) -> Any:
    """A loop by its name in the tables."""
    match name:
        case "plain httpx2":
            return PlainHttpx2(base_url)
        case "plain aiohttp":
            return PlainAiohttp(base_url)
        case "loopwright httpx2":
            return Ours(base_url, "httpx2")
        case _:
            return Ours(base_url, "aiohttp")
