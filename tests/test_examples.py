"""Every example runs."""

from __future__ import annotations

import importlib.util
import queue
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import anyio
import pytest
from kit import roles, valid

from loopwright import AssistantMessage, EngineState, TextPart, ToolResultMessage, load_messages
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


# ---------------------------------------------------------------- approval


def in_a_process(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the example in a process of its own, with a scripted model."""
    program = f"""
        import sys
        sys.path.insert(0, {str(EXAMPLES)!r})
        import approval
        from loopwright.testing import ScriptedModel, call
        sys.exit(approval.main({list(arguments)!r}, model=ScriptedModel({script})))
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, cwd=folder, timeout=60, check=False,
    )  # fmt: skip


def test_approval_in_three_processes(tmp_path: Path) -> None:
    waiting, finished = "waiting.json", "finished.json"
    asked = in_a_process(
        tmp_path, '[[call("issue_refund", id="c1", order="4711", amount=30)]]', "ask", "Refund 30 for 4711.", waiting
    )
    assert (asked.returncode, asked.stdout, asked.stderr) == (
        0, "Waiting for approval: issue_refund {'order': '4711', 'amount': 30}\n", "",
    )  # fmt: skip
    saved = load_messages((tmp_path / waiting).read_bytes())
    assert roles(saved) == "u a"
    assert not (tmp_path / "waiting.book").exists()

    answer = ("answer", waiting, finished, "--amount", "20")
    approved = in_a_process(tmp_path, '["20 euros are on their way."]', *answer)
    assert (approved.returncode, approved.stderr) == (0, "")
    order, amount, key = (tmp_path / "waiting.book").read_text().split()
    assert (order, amount) == ("4711", "20.00")
    assert key.endswith("/c1")
    assert approved.stdout.endswith("Answer: 20 euros are on their way.\n")
    messages = load_messages((tmp_path / finished).read_bytes())
    assert [message.role for message in messages] == ["user", "assistant", "approval", "tool", "assistant"]
    result = messages[3]
    assert isinstance(result, ToolResultMessage)
    assert result.text.endswith("Refunded 20.00 euros for order 4711.")

    again = in_a_process(tmp_path, '["Never asked."]', *answer)
    assert (again.returncode, again.stderr) == (1, "")
    assert again.stdout.startswith("Refused: ")
    assert key in again.stdout
    assert (tmp_path / "waiting.book").read_text().count("\n") == 1
    assert load_messages((tmp_path / finished).read_bytes()) == messages


# ---------------------------------------------------------------- a user interface


class Person:
    """Types lines, each when the state is what it waits for."""

    def __init__(self, *turns: tuple[Callable[[EngineState], bool], str]) -> None:
        self.turns = list(turns)
        self.lines: queue.Queue[str] = queue.Queue()

    def see(self, state: EngineState) -> None:
        if self.turns and self.turns[0][0](state):
            self.lines.put(self.turns.pop(0)[1])

    def __iter__(self) -> Iterator[str]:
        while True:
            yield self.lines.get(timeout=20)


def rests_after(steps: int) -> Callable[[EngineState], bool]:
    return lambda state: state.phase == "idle" and state.total_steps == steps


async def test_ui_engine_by_dispatch_alone() -> None:
    ui_engine = load("ui_engine")
    script = [
        [call("look", bed="roses"), call("water", bed="roses")], "Done, the roses are wet.",
        [call("water", bed="tulips")], "I left them dry.",
        [anyio.sleep_forever],
    ]  # fmt: skip
    person = Person(
        (rests_after(0), "Water the roses"),
        (lambda state: state.phase == "awaiting_approval", "/yes"),
        (rests_after(2), "Water the tulips"),
        (lambda state: state.phase == "awaiting_approval", "/no they drown"),
        (rests_after(4), "Think"),
        (lambda state: state.phase == "requesting", "/stop"),
        (lambda state: state.phase == "idle" and len(state.messages) == 12, "/reset"),
        (lambda state: state.phase == "idle" and not state.messages, "/quit"),
    )
    written: list[str] = []

    def write(text: str, *, end: str = "\n") -> None:
        written.append(text + end)

    with ScriptedModel(script) as model:
        agent = ui_engine.Gardener(model=model)
        await ui_engine.main(agent, person, write, person.see)
    assert person.turns == []
    text = "".join(written)
    assert '[look {"bed": "roses"}]' in text
    assert text.count("May I water") == 2
    assert '[water {"bed": "roses"}]' in text
    assert '[water {"bed": "tulips"}]' not in text
    assert "Done, the roses are wet.\n" in text
    assert "I left them dry.\n" in text
    denied = model.requests[3].context.messages[-1]
    assert isinstance(denied, ToolResultMessage)
    assert (denied.status, "they drown" in denied.text) == ("denied", True)


def test_ui_engine_types_what_grows_once() -> None:
    ui_engine = load("ui_engine")
    written: list[str] = []
    screen = ui_engine.Screen(lambda text, end="\n": written.append(text + end))
    for state in (
        EngineState("streaming", streaming_text="One"),
        EngineState("streaming", streaming_text="One two"),
        EngineState("executing", (AssistantMessage((TextPart("One two three."),)),)),
        EngineState("streaming", (AssistantMessage((TextPart("One two three."),)),), streaming_text="Fo"),
        EngineState("aborted", (AssistantMessage((TextPart("One two three."),)),)),
    ):
        screen.show(state)
    assert "".join(written) == "One two three.\nFo\n[aborted]\n"
