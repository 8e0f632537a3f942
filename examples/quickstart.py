"""An agent with three tools on a language model that runs on this machine: no key, no account.

    python examples/quickstart.py ["a question of your own"]

Every event is printed as it comes: text, tool calls with their progress and results, and at the end the answer, the
steps and the tokens.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import httpx2

from loopwright import GenerateResult, ModelSettings, StepCountIs, ToolContext, ToolLoopAgent, tool
from loopwright.events import (
    Abort,
    Error,
    FinishStep,
    StartStep,
    StreamPart,
    TextDelta,
    ToolCall,
    ToolError,
    ToolProgress,
    ToolResult,
)

QUESTIONS = ["What is the weather in Paris?", "What is 1234 plus 4321?", "Search my notes for milk."]


class Desk:
    """What the agent works with: the run's context object."""

    def __init__(self, weather_url: str, notes: Path) -> None:
        self.weather_url = weather_url
        self.notes = notes


class DeskAgent(ToolLoopAgent[Desk, str]):
    """Answers questions about the weather, sums and notes."""

    model = "local:"
    instructions = "You are a helpful assistant. Use a tool to find out, then answer in one sentence."
    model_settings = ModelSettings(temperature=0, seed=1, max_output_tokens=200)
    stop_when = StepCountIs(6)

    @tool
    async def get_weather(self, ctx: ToolContext[Desk], city: str) -> str:
        """Get the current weather for a city.

        Args:
            city: City name, e.g. Paris
        """
        async with httpx2.AsyncClient() as client:
            response = await client.get(ctx.context.weather_url, params={"city": city})
            return response.raise_for_status().text

    @tool
    def add(self, a: float, b: float) -> float:
        """Add two numbers and return the sum."""
        return a + b

    @tool
    async def search_notes(self, ctx: ToolContext[Desk], query: str) -> AsyncIterator[str]:
        """Search the notes for a word and return the lines that match.

        Args:
            query: the word to search for
        """
        found: list[str] = []
        async for path in anyio.Path(ctx.context.notes).glob("*.txt"):
            yield f"reading {path.name}"
            lines = (await path.read_text()).splitlines()
            found += [f"{path.name}: {line}" for line in lines if query.lower() in line.lower()]
        yield "\n".join(found) or f"No note has the word {query!r}."


def show(part: StreamPart) -> None:
    """Print one event."""
    match part:
        case StartStep(step_number=number):
            print(f"\n-- step {number}")
        case TextDelta(text=text):
            print(text, end="", flush=True)
        case ToolCall(call=call):
            print(f"\n   call    {call.name} {call.arguments}", flush=True)
        case ToolProgress(call=call, progress=progress):
            print(f"   working {call.name}: {progress}", flush=True)
        case ToolResult(call=call, result=result):
            print(f"   result  {call.name}: {result.text}", flush=True)
        case ToolError(call=call, result=result):
            print(f"   error   {call.name}: {result.text}", flush=True)
        case FinishStep(finish_reason=reason):
            print(f"\n   finish  {reason}")
        case Error(error=error):
            print(f"\n   failed  {error.type}: {error.message}")
        case Abort(reason=reason):
            print(f"\n   aborted {reason}")
        case _:
            pass


class Weather(BaseHTTPRequestHandler):
    """A tiny weather service on this machine."""

    def do_GET(self) -> None:
        """Answer any city."""
        body = b"18 degrees Celsius and cloudy"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


async def answer(agent: DeskAgent, question: str, desk: Desk) -> GenerateResult[str]:
    """Ask one question, and show what happens."""
    print(f"\n=== {question}")
    async with agent.stream(question, context=desk) as run:
        async for part in run:
            show(part)
        result = await run.result()
    usage = result.usage
    tokens = f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else "not reported"
    print(f"\nAnswer: {result.text}\nSteps: {len(result.steps)}; tools: {len(result.tool_calls)}; tokens: {tokens}")
    return result


async def main(questions: list[str], agent: DeskAgent | None = None) -> list[GenerateResult[str]]:
    """Answer the questions one after the other."""
    agent = agent or DeskAgent()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Weather)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    async with anyio.TemporaryDirectory() as folder:
        notes = Path(folder)
        (notes / "shopping.txt").write_text("buy oat milk and two lemons\nask for a bag\n")
        (notes / "books.txt").write_text("return Emma on Friday\n")
        desk = Desk(f"http://127.0.0.1:{server.server_port}/weather", notes)
        try:
            print(f"{agent!r}")
            return [await answer(agent, question, desk) for question in questions]
        finally:
            server.shutdown()
            server.server_close()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:] or QUESTIONS)
