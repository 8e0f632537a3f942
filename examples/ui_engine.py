"""A toy user interface in a terminal: it drives an agent through `dispatch` alone, and shows `engine_states()`.

    python examples/ui_engine.py

What you type is said to the agent, also while it works: a new input takes the place of the one before. Commands:
/steer TEXT, /later TEXT, /yes, /no REASON, /stop, /reset, /quit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import anyio

from loopwright import (
    Approve,
    AssistantMessage,
    Cancel,
    Deny,
    EngineState,
    FollowUp,
    ModelSettings,
    Reset,
    Steer,
    Submit,
    ToolLoopAgent,
    tool,
)

HELP = "Say something, or: /steer TEXT, /later TEXT, /yes, /no REASON, /stop, /reset, /quit"


class Gardener(ToolLoopAgent):
    """Knows a garden, and waters it when a person agrees."""

    model = "local:"
    instructions = "You look after a garden. Use the tools, then answer in one short sentence."
    model_settings = ModelSettings(temperature=0, seed=1, max_output_tokens=200)

    @tool
    def look(self, bed: str) -> str:
        """Look at a bed of the garden.

        Args:
            bed: What grows there, like roses.
        """
        return f"The {bed} are dry."

    @tool(needs_approval=True)
    def water(self, bed: str) -> str:
        """Water a bed of the garden.

        Args:
            bed: What grows there, like roses.
        """
        return f"The {bed} were watered."


class Output(Protocol):
    """Where text goes."""

    def __call__(self, text: str, *, end: str = "\n") -> Any: ...


class Screen:
    """Shows states: the text as it grows, calls as they begin, and what is asked of the person.

    States are snapshots, and a slow reader misses some: what was not seen growing is shown when it is there.
    """

    def __init__(self, write: Output) -> None:
        self.write = write
        self.shown = EngineState()
        self.typed = ""

    def show(self, state: EngineState) -> None:
        """Show what is new in a state."""
        before, self.shown = self.shown, state
        for message in state.messages[len(before.messages) :]:
            if isinstance(message, AssistantMessage):
                self.type(message.text)
                self.end_line()
        if state.is_streaming:
            self.type(state.streaming_text)
        else:
            self.end_line()
        for call in state.current_tool_calls:
            if call not in before.current_tool_calls:
                self.write(f"[{call.name} {call.arguments}]")
        for pending in state.pending_approvals:
            if pending not in before.pending_approvals:
                self.write(f"May I {pending.tool_name} {pending.call.arguments}? /yes or /no REASON")
        if state.error and state.error != before.error:
            self.write(f"[failed: {state.error}]")
        if before.is_running and not state.is_running:
            self.write(f"[{state.phase}]")

    def type(self, text: str) -> None:
        """Write what is new of an answer's text."""
        if text.startswith(self.typed):
            self.write(text[len(self.typed) :], end="")
            self.typed = text

    def end_line(self) -> None:
        """The answer is complete, or cut short."""
        if self.typed:
            self.write("")
        self.typed = ""


def obey(agent: Gardener, line: str) -> bool:
    """Do what a line says. False ends the program."""
    command, _, text = line.strip().partition(" ")
    waiting = agent.engine_state.pending_approvals
    match command:
        case "":
            return True
        case "/quit":
            agent.close()
            return False
        case "/steer":
            agent.dispatch(Steer(text))
        case "/later":
            agent.dispatch(FollowUp(text))
        case "/yes" if waiting:
            agent.dispatch(Approve(waiting[0].approval_id, approver="you"))
        case "/no" if waiting:
            agent.dispatch(Deny(waiting[0].approval_id, text or None, approver="you"))
        case "/stop":
            agent.dispatch(Cancel(reason="you said stop"))
        case "/reset":
            agent.dispatch(Reset)
        case _:
            agent.dispatch(Submit(line.strip()))
    return True


def read(agent: Gardener, lines: Iterable[str]) -> None:
    """Obey line after line, in a thread: dispatch works from any."""
    for line in lines:
        if not obey(agent, line):
            return
    agent.close()


async def main(
    agent: Gardener | None = None,
    lines: Iterable[str] = sys.stdin,
    write: Output = print,
    on_state: Callable[[EngineState], None] | None = None,
) -> None:
    """Show states until the agent is closed, which the last line does."""
    agent = agent or Gardener()
    screen = Screen(write)
    write(HELP)
    reader = threading.Thread(target=read, args=(agent, lines), daemon=True)
    async for state in agent.engine_states():
        if reader.ident is None:  # from now on the agent knows in which event loop its runs belong
            reader.start()
        screen.show(state)
        if on_state is not None:
            on_state(state)


if __name__ == "__main__":
    anyio.run(main)
