"""The table of vendors: where a request goes, with which key, in which dialect."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from http_kit import REQUEST, Exchange, serve

from loopwright.errors import InvalidArgumentError, MissingAPIKeyError
from loopwright.messages import AssistantMessage, ToolCallPart, ToolResultMessage, UserMessage
from loopwright.models.auth import Secret, bearer, checked_headers, header_key
from loopwright.models.base import Capabilities, ModelRequest, ModelSettings, RequestContext
from loopwright.models.http import close_shared_transports
from loopwright.models.openai_chat.quirks import ChatQuirks
from loopwright.models.vendors import VENDORS, OpenAICompatible, Vendor

WITH_KEY = [vendor for vendor in VENDORS.values() if vendor.needs_key]
KEYLESS = [vendor for vendor in VENDORS.values() if not vendor.needs_key]


def named(vendor: Vendor) -> str:
    return vendor.name


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in VENDORS.values():
        for name in (*vendor.key_variables, *vendor.url_variables, *vendor.version_variables):
            monkeypatch.delenv(name, raising=False)


def test_all_vendors_are_there() -> None:
    assert set(VENDORS) == {
        "azure", "cerebras", "deepseek", "fireworks", "gemini-openai", "groq", "huggingface", "llamacpp", "lmstudio",
        "mistral", "moonshot", "ollama", "openai", "openrouter", "perplexity", "together", "vllm", "xai", "zai",
    }  # fmt: skip
    assert all(name == vendor.name for name, vendor in VENDORS.items())
    assert {vendor.name for vendor in KEYLESS} == {"ollama", "vllm", "lmstudio", "llamacpp"}


@pytest.mark.parametrize("vendor", WITH_KEY, ids=named)
def test_key_from_any_of_its_variables(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://acme.openai.azure.com")
    for variable in vendor.key_variables:
        with monkeypatch.context() as environment:
            with pytest.raises(MissingAPIKeyError, match=variable) as caught:
                vendor.model("m")
            assert vendor.name in str(caught.value)
            environment.setenv(variable, "  ")
            with pytest.raises(MissingAPIKeyError):
                vendor.model("m")
            environment.setenv(variable, " sk-hush\n")
            model = vendor.model("m")
            assert (model.provider, model.name, model.api) == (vendor.name, "m", "openai-chat")
            assert "hush" not in repr(model)
            assert "hush" not in repr(vendor)
    assert vendor.model("m", api_key="sk-2").name == "m"


@pytest.mark.parametrize("vendor", KEYLESS, ids=named)
def test_local_servers_need_no_key_and_are_on_loopback(vendor: Vendor) -> None:
    assert vendor.model("m").base_url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("vendor", [vendor for vendor in WITH_KEY if vendor.base_url], ids=named)
def test_remote_vendors_are_asked_over_tls(vendor: Vendor) -> None:
    assert vendor.base_url.startswith("https://")
    assert vendor.model("m", api_key="k").base_url == vendor.base_url


@pytest.mark.parametrize(
    "url", ["http://box:11434", "http://box:11434/", "http://box:11434/v1", "http://box:11434/v1/"]
)
def test_base_url_from_the_environment_with_or_without_suffix(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", url)
    assert VENDORS["ollama"].model("qwen3:8b").base_url == "http://box:11434/v1"
    assert VENDORS["ollama"].model("qwen3:8b", base_url="http://other/v1").base_url == "http://other/v1"


async def requests_of(vendor: Vendor, monkeypatch: pytest.MonkeyPatch, request: ModelRequest) -> Exchange:
    """What the vendor's server is asked."""

    async def handler(exchange: Exchange) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        await exchange.answer(json.dumps({"id": "1", "choices": [choice]}).encode())

    async with serve(handler) as server:
        for variable in vendor.url_variables:
            monkeypatch.setenv(variable, server.url)
        url = None if vendor.url_variables else server.url + "/base"
        await vendor.model("my model", api_key="sk-1", base_url=url).generate(request)
        await close_shared_transports()
    return server.exchanges[0]


async def test_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    azure = VENDORS["azure"]
    with pytest.raises(InvalidArgumentError, match="AZURE_OPENAI_ENDPOINT"):
        azure.model("m", api_key="k")
    asked = await requests_of(azure, monkeypatch, REQUEST)
    assert asked.target == "/openai/v1/chat/completions"
    assert asked.headers["api-key"] == "sk-1"
    assert "authorization" not in asked.headers
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    asked = await requests_of(azure, monkeypatch, REQUEST)
    assert asked.target == "/openai/deployments/my%20model/chat/completions?api-version=2024-10-21"


@pytest.mark.parametrize("vendor", [vendor for vendor in VENDORS.values() if vendor.name != "azure"], ids=named)
async def test_key_goes_out_as_bearer(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = await requests_of(vendor, monkeypatch, REQUEST)
    assert asked.headers["authorization"] == "Bearer sk-1"
    assert asked.target.endswith("/chat/completions")
    assert json.loads(asked.body)["model"] == "my model"


async def test_dialects_reach_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    request = ModelRequest(RequestContext([UserMessage("Hi")], system="Be brief."), ModelSettings(max_output_tokens=5))
    openai = json.loads((await requests_of(VENDORS["openai"], monkeypatch, request)).body)
    groq = json.loads((await requests_of(VENDORS["groq"], monkeypatch, request)).body)
    assert (openai["max_completion_tokens"], openai["messages"][0]["role"]) == (5, "developer")
    assert (groq["max_tokens"], groq["messages"][0]["role"]) == (5, "system")


def test_options_go_to_the_model() -> None:
    blind = Capabilities(images=False)
    model = VENDORS["groq"].model("m", api_key="k", capabilities=blind)
    assert model.capabilities is blind
    assert VENDORS["mistral"].model("m", api_key="k").capabilities.tool_call_id_max_length == 9


async def test_any_other_endpoint() -> None:
    history = [
        UserMessage("Hi"),
        AssistantMessage((ToolCallPart("c1", "add", "{}"),)),
        ToolResultMessage("c1", "add", "3"),
    ]

    async def handler(exchange: Exchange) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        await exchange.answer(json.dumps({"id": "1", "choices": [choice]}).encode())

    async with serve(handler) as server:
        model = OpenAICompatible(
            "m",
            base_url=server.url,
            provider="acme",
            quirks=ChatQuirks(max_tokens_field="max_len"),
            auth=header_key("x-key", "sk-2"),
            headers={"x-team": "blue"},
        )
        request = ModelRequest(RequestContext(history), ModelSettings(max_output_tokens=9))
        assert (await model.generate(request)).text == "ok"
        await close_shared_transports()
    asked = server.exchanges[0]
    body = json.loads(asked.body)
    assert model.provider == "acme"
    assert body["max_len"] == 9
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]
    assert (asked.headers["x-key"], asked.headers["x-team"]) == ("sk-2", "blue")
    assert "authorization" not in asked.headers


async def test_model_of_one_loop_serves_another() -> None:
    """The model holds no client: what is shared belongs to the loop that runs."""

    async def handler(exchange: Exchange) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        await exchange.answer(json.dumps({"id": "1", "choices": [choice]}).encode())

    async with serve(handler) as server:
        model = OpenAICompatible("m", base_url=server.url)

        def in_a_thread() -> Any:
            return anyio.run(model.generate, REQUEST)

        assert (await model.generate(REQUEST)).text == "ok"
        assert (await anyio.to_thread.run_sync(in_a_thread)).text == "ok"
        assert server.connections == 2
        await close_shared_transports()


# ---------------------------------------------------------------- keys


def test_secret_shows_nowhere() -> None:
    secret = Secret("  sk-hush\n")
    assert secret.reveal() == "sk-hush"
    assert "hush" not in f"{secret} {secret!r} {[secret]}"
    assert "hush" not in repr(bearer(secret))


def test_no_key_no_header() -> None:
    assert bearer(None)() == {}
    assert header_key("x", None)() == {}
    assert bearer("k")() == {"authorization": "Bearer k"}
    assert header_key("api-key", Secret("k"))() == {"api-key": "k"}


def test_checked_headers() -> None:
    assert checked_headers({"X-A": "1"}) == {"x-a": "1"}
    with pytest.raises(InvalidArgumentError, match="'X-A'") as caught:
        checked_headers({"X-A": "hush\r\nx-b: 2"})
    assert "hush" not in str(caught.value)
