"""From strings to models."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from loopwright.errors import InvalidArgumentError, MissingAPIKeyError, UnknownModelError
from loopwright.models import registry
from loopwright.models.http_model import HTTPModel
from loopwright.models.registry import known_schemes, register_scheme, register_vendor, resolve_model
from loopwright.models.vendors import OpenAICompatible, Vendor


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_factories", {})
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_BASE_URL", "ACME_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_vendor_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    model = resolve_model("openai:gpt-5-mini")
    assert isinstance(model, HTTPModel)
    assert (model.provider, model.api, model.name) == ("openai", "openai-chat", "gpt-5-mini")
    assert model.base_url == "https://api.openai.com/v1"


def test_names_may_have_colons() -> None:
    assert resolve_model("ollama:qwen3:8b").name == "qwen3:8b"


def test_key_is_read_when_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingAPIKeyError, match="'openai'.*OPENAI_API_KEY"):
        resolve_model("openai:gpt-5-mini")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert resolve_model("openai:gpt-5-mini").provider == "openai"


def test_unknown_vendor() -> None:
    with pytest.raises(UnknownModelError, match="no vendor 'opnai'.*Did you mean 'openai'") as caught:
        resolve_model("opnai:gpt-5-mini")
    assert all(name in str(caught.value) for name in ("azure", "groq", "local", "zai", "register_vendor"))
    with pytest.raises(UnknownModelError) as caught:
        resolve_model("qqqqqq:m")
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("model", ["gpt-5-mini", ""])
def test_no_vendor(model: str) -> None:
    with pytest.raises(UnknownModelError, match="vendor:model, like 'openai:gpt-5-mini'"):
        resolve_model(model)


def test_no_name() -> None:
    with pytest.raises(UnknownModelError, match="names no model of 'openai'"):
        resolve_model("openai:")


def test_register_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    register_vendor(Vendor("acme", "https://llm.acme.example/v1", ("ACME_KEY",)))
    assert "acme" in known_schemes()
    with pytest.raises(MissingAPIKeyError, match="ACME_KEY"):
        resolve_model("acme:big")
    monkeypatch.setenv("ACME_KEY", "k")
    assert repr(resolve_model("acme:big")) == "<HTTPModel acme:big at llm.acme.example>"


def test_what_is_registered_goes_first() -> None:
    models = {name: OpenAICompatible(name, base_url="http://localhost/v1") for name in ("a", "b")}
    register_scheme("openai", lambda name: models[name])
    assert resolve_model("openai:a") is models["a"]
    register_scheme("openai", lambda name: models["b"])
    assert resolve_model("openai:a") is models["b"]


@pytest.mark.parametrize("scheme", ["", "a:b"])
def test_bad_scheme(scheme: str) -> None:
    with pytest.raises(InvalidArgumentError, match="before the colon"):
        register_scheme(scheme, lambda name: OpenAICompatible(name, base_url="http://localhost"))


@pytest.mark.parametrize(("model", "name"), [("local:", ""), ("local:small", "small")])
def test_local_is_loaded_when_asked_for(model: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    made = OpenAICompatible("m", base_url="http://localhost")

    def local_model(name: str) -> OpenAICompatible:
        asked.append(name)
        return made

    module = ModuleType("loopwright.models.local")
    module.local_model = local_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "loopwright.models.local", module)
    assert resolve_model(model) is made
    assert asked == [name]
