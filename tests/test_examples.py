"""Every example runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from kit import roles, valid

from loopwright.testing import ScriptedModel, call

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


async def test_quickstart(capsys: pytest.CaptureFixture[str]) -> None:
    quickstart = load("quickstart")
    script = [
        [call("get_weather", city="Paris")], "It is cloudy.",
        [call("add", a=1234, b=4321)], "It is 5555.",
        [call("search_notes", query="milk")], "You want oat milk.",
    ]  # fmt: skip
    with ScriptedModel(script) as model:
        results = await quickstart.main(quickstart.QUESTIONS, quickstart.DeskAgent(model=model))
    assert [roles(result.messages) for result in results] == ["u a get_weather a", "u a add a", "u a search_notes a"]
    assert [result.messages[2].text for result in results] == [
        "18 degrees Celsius and cloudy",
        "5555.0",
        "shopping.txt: buy oat milk and two lemons",
    ]
    for result in results:
        valid(result.messages)
    printed = capsys.readouterr().out
    assert "working search_notes: reading shopping.txt" in printed
    assert "Answer: You want oat milk.\nSteps: 2; tools: 1; tokens: not reported" in printed
