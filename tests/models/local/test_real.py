"""Real models on this machine: small ones, fetched once and kept in the user's cache."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from loopwright.errors import ContextOverflowError, LocalModelError
from loopwright.messages import UserMessage
from loopwright.models.base import ModelRequest, ModelSettings, RequestContext, ToolDeclaration
from loopwright.models.local import CATALOG, LocalModel, local_model, silent, stop_local_servers
from loopwright.models.local.catalog import DEFAULT
from loopwright.models.local.fetch import fetch_model

pytestmark = [pytest.mark.local, pytest.mark.timeout(900)]

SMALL = "smollm2-135m"
LONG = "Count."


@pytest.fixture(scope="module", autouse=True)
def fetched() -> Iterator[None]:
    for name in (SMALL, DEFAULT):
        fetch_model(CATALOG[name], silent)
    yield
    stop_local_servers()


def ask(text: str, **settings: object) -> ModelRequest:
    values = {"temperature": 0.0, "max_output_tokens": 12} | settings
    return ModelRequest(RequestContext([UserMessage(text)]), ModelSettings(**values))  # type: ignore[arg-type]


async def test_an_answer_and_the_same_as_a_stream() -> None:
    model = local_model(SMALL, progress=silent)
    whole = await model.generate(ask("Say hello."))
    stream = await model.stream(ask("Say hello."))
    pieces = [event.text async for event in stream if event.type == "text-delta"]
    assert len(pieces) > 1
    assert "".join(pieces) == whole.text == (await stream.result()).text
    assert whole.usage is not None
    assert whole.usage.output_tokens


def endless() -> ModelRequest:
    """Left alone it would take minutes: the model may not end its answer by itself."""
    return ask(LONG, max_output_tokens=3500, extra_body={"ignore_eos": True})


async def until_slot_is(model: LocalModel, busy: bool) -> None:
    """Ask the server itself whether it is answering; how long an answer takes depends on the machine."""
    worker = await model.server().ready(silent)
    url = worker.base_url.removesuffix("/v1") + "/slots"
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {worker.key}"})

    def is_busy() -> bool:
        with urllib.request.urlopen(request) as response:
            return bool(json.load(response)[0]["is_processing"])

    with anyio.fail_after(20):
        while await anyio.to_thread.run_sync(is_busy) != busy:
            await anyio.sleep(0.01)


async def test_leaving_a_stream_in_the_middle_frees_the_server() -> None:
    model = local_model(SMALL, progress=silent)
    stream = await model.stream(endless())
    await anext(aiter(stream))
    await until_slot_is(model, busy=True)
    await stream.aclose()
    await until_slot_is(model, busy=False)


async def test_a_cancelled_request_frees_the_server() -> None:
    model = local_model(SMALL, progress=silent)
    answered: list[object] = []

    async def generate() -> None:
        answered.append(await model.generate(endless()))

    async with anyio.create_task_group() as group:
        group.start_soon(generate)
        await until_slot_is(model, busy=True)
        group.cancel_scope.cancel()
    await until_slot_is(model, busy=False)
    assert answered == []


async def test_a_killed_server_is_told_and_starts_again() -> None:
    model = local_model(SMALL, progress=silent)
    stream = await model.stream(endless())
    process_id = model.server().process_id
    assert process_id is not None

    async def read(events: AsyncIterator[object]) -> None:
        await anext(events)
        os.kill(process_id, signal.SIGKILL)
        async for _ in events:
            pass

    with pytest.raises(LocalModelError, match="was ended by SIGKILL"):
        await read(aiter(stream))
    await stream.aclose()
    assert (await model.generate(ask("Say hello.", max_output_tokens=4))).text
    assert model.server().process_id != process_id


async def test_a_prompt_that_is_too_long() -> None:
    model = local_model(f"{SMALL}?n_ctx=256", progress=silent)
    with pytest.raises(ContextOverflowError) as caught:
        await model.generate(ask("word " * 400))
    assert "n_ctx=512" in caught.value.__notes__[0]
    model.server().stop()


@pytest.mark.parametrize("content", [b"no model", b"GGUF\x03\x00\x00\x00" + bytes(64)])
async def test_a_file_that_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    with pytest.raises(LocalModelError) as caught:
        await local_model(str(path), progress=silent).generate(ask("hi"))
    said = str(caught.value)
    assert "'broken' could not be started" in said
    assert "status 1" in said
    assert "Failed to init server" in said
    assert "Fatal Python error" not in said


PARENT = """
import anyio, sys
from loopwright.models.local import local_model, silent
from loopwright.models.local.server import LocalServer
model = local_model(sys.argv[1], progress=silent)
worker = anyio.run(model.server().ready, silent)
print(worker.process_id, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
def test_no_server_outlives_a_killed_parent() -> None:
    command = [sys.executable, "-c", PARENT, SMALL]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process_id = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
    pause = threading.Event()
    for _ in range(1000):
        if not Path(f"/proc/{process_id}/exe").exists():
            return
        pause.wait(0.01)
    raise AssertionError("the server is still there")


async def test_the_default_model_asks_for_a_tool() -> None:
    weather = ToolDeclaration(
        "get_weather",
        "Get the current weather for a city.",
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    )
    context = RequestContext([UserMessage("What is the weather in Paris?")], "You are a helpful assistant.", [weather])
    settings = ModelSettings(temperature=0, max_output_tokens=60)
    message = await local_model(progress=silent).generate(ModelRequest(context, settings))
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("get_weather", '{"city": "Paris"}')]
