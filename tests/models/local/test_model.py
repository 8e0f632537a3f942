"""Local models by name, and their requests, served by a fake worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopwright.errors import (
    ContextOverflowError,
    InvalidArgumentError,
    LocalModelError,
    ModelConnectionError,
    ModelResponseError,
    UnknownModelError,
)
from loopwright.messages import UserMessage
from loopwright.models import resolve_model
from loopwright.models.base import ModelRequest, RequestContext
from loopwright.models.local import CATALOG, LocalModel, local_model, silent
from loopwright.models.local.catalog import DEFAULT

Make = Callable[..., LocalModel]


def ask(text: str) -> ModelRequest:
    return ModelRequest(RequestContext([UserMessage(text)]))


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["", "default", DEFAULT, DEFAULT.upper()])
def test_names_of_the_default_model(name: str) -> None:
    model = local_model(name)
    assert (model.provider, model.api, model.name) == ("local", "openai-chat", "qwen2.5-coder-0.5b")
    assert model.capabilities.context_window == 4096
    assert model.capabilities.tools
    assert not model.capabilities.images


def test_the_registry_knows_it() -> None:
    model = resolve_model("local:smollm2-135m?n_ctx=2048")
    assert isinstance(model, LocalModel)
    assert (model.name, model.capabilities.context_window) == ("smollm2-135m", 2048)
    assert not model.capabilities.tools


def test_the_argument_goes_before_the_option_in_the_name() -> None:
    assert local_model("default?n_ctx=2048").capabilities.context_window == 2048
    assert local_model("default?n_ctx=2048", n_ctx=512).capabilities.context_window == 512
    assert local_model("?n_ctx=2048").name == DEFAULT


@pytest.mark.parametrize("name", ["/m/Own-1B.gguf", "~/Own-1B.gguf", "Own-1B.GGUF", "C:\\m\\Own-1B.gguf", "m/Own-1B"])
def test_a_path_is_a_model(name: str) -> None:
    assert "Own-1B" in local_model(name + "?n_ctx=65536").name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("default?n_ctx=", "n_ctx must be a positive number of tokens, not ''"),
        ("default?n_ctx=0", "not 0"),
        ("default?n_ctx=many", "not 'many'"),
        ("default?n_ctx=-1", "not '-1'"),
        ("default?threads=2", "'threads=2'"),
        ("default?n_ctx=1&threads=2", "n_ctx=8192"),
        ("default?", "it has no ''"),
        ("default?n_ctx=99999", "at most 32768 tokens, not 99999"),
    ],
)
def test_options_that_cannot_work(name: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words.replace("?", r"\?")):
        local_model(name)


@pytest.mark.parametrize("n_ctx", [True, 2.5, "4096", -1])
def test_n_ctx_that_cannot_work(n_ctx: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="n_ctx must be a positive number"):
        local_model(n_ctx=n_ctx)


def test_an_unknown_name_gets_the_list_and_a_hint() -> None:
    with pytest.raises(UnknownModelError, match=r"Did you mean 'smollm2-135m'\? There are: .*local:/path/to"):
        local_model("smollm-135m")


# ---------------------------------------------------------------- requests


@pytest.fixture
def make(workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr("loopwright.models.local.model.check_installed", lambda: None)
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"x")

    def make(mode: str = "good", path: Path = file, **more: Any) -> LocalModel:
        model = local_model(str(path), progress=silent, **more)
        return LocalModel(model.name, model._source, n_ctx=model._n_ctx, progress=silent, command=workers.command(mode))

    return make


async def test_nothing_starts_before_the_first_request(make: Make, workers: Any) -> None:
    model = make()
    assert repr(model) == "<LocalModel tiny>"
    assert workers.process_ids == []
    message = await model.generate(ask("hi"))
    assert message.text == "hello"
    assert (message.provider, message.api, message.model) == ("local", "openai-chat", "tiny")
    assert len(workers.process_ids) == 1


async def test_a_stream(make: Make) -> None:
    stream = await make().stream(ask("hi"))
    kinds = [event.type async for event in stream]
    assert kinds[0] == "response-start"
    assert kinds[-1] == "response-done"
    assert stream.pop_ready() is None
    assert (await stream.result()).text == "hello"
    await stream.aclose()


async def test_models_of_the_same_file_share_a_server(make: Make, workers: Any, tmp_path: Path) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(tmp_path / "tiny.gguf")
    for model in (make(), make(), make(path=link)):
        await model.generate(ask("hi"))
    assert len(workers.process_ids) == 1
    await make(n_ctx=512).generate(ask("hi"))
    assert len(workers.process_ids) == 2


async def test_a_file_that_is_not_there(make: Make, tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match=r"There is no model file .*gone\.gguf"):
        await make(path=tmp_path / "gone.gguf").generate(ask("hi"))


async def test_a_server_that_dies_while_it_answers_is_told_as_such_and_starts_again(make: Make, workers: Any) -> None:
    model = make()
    with pytest.raises(LocalModelError, match=r"died while it answered: its process ended with status 3") as caught:
        await model.generate(ask("die"))
    assert "fatal: out of luck" in str(caught.value)
    assert "next request starts it again" in str(caught.value)
    assert caught.value.retryable
    assert isinstance(caught.value.__cause__, ModelConnectionError)
    assert (await model.generate(ask("hi"))).text == "hello"
    assert len(workers.process_ids) == 2


@pytest.mark.parametrize("how", ["iterate", "result"])
async def test_a_server_that_dies_in_the_middle_of_a_stream(make: Make, workers: Any, how: str) -> None:
    model = make("aborting")
    stream = await model.stream(ask("die"))
    with pytest.raises(LocalModelError, match="was ended by SIGABRT"):
        if how == "result":
            await stream.result()
        async for _ in stream:
            pass
    await stream.aclose()
    assert (await (await model.stream(ask("hi"))).result()).text == "hello"


async def test_an_answer_that_breaks_off_is_an_error_of_generate_and_an_event_of_stream(make: Make) -> None:
    model = make()
    with pytest.raises(ModelResponseError, match="does not match the expected format") as caught:
        await model.generate(ask("break"))
    assert caught.value.answer is not None
    assert (caught.value.answer.text, caught.value.answer.failed) == ("hel", True)
    kinds = [event.type async for event in await model.stream(ask("break"))]
    assert kinds[-1] == "response-error"


async def test_a_context_overflow_says_how_to_have_more(make: Make) -> None:
    with pytest.raises(ContextOverflowError) as caught:
        await make(n_ctx=1000).generate(ask("overflow"))
    assert "n_ctx=2000" in caught.value.__notes__[0]


async def test_the_missing_extra_is_told_at_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.models.local.server.find_spec", lambda name: None)
    with pytest.raises(LocalModelError, match=r'pip install "loopwright\[local\]"'):
        await local_model("/m/x.gguf").generate(ask("hi"))


async def test_a_model_of_the_catalog_is_fetched_with_its_template(
    make: Make, cache: Path, workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr("loopwright.models.local.model.fetch_model", lambda row, report: fetched.append(row.name))
    row = CATALOG["smollm2-135m"]
    model = LocalModel(row.name, row, progress=silent, command=workers.command("good"))
    assert (await model.generate(ask("hi"))).text == "hello"
    assert fetched == ["smollm2-135m"]


@pytest.mark.parametrize("row", [row for row in CATALOG.values() if row.template], ids=lambda row: row.name)
def test_templates_of_the_catalog_are_there(row: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.models.local.model.check_installed", lambda: None)
    assert "add_generation_prompt" in (LocalModel(row.name, row).server()._template or "")
