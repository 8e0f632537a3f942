"""Draws the phases of a run from the table that the engine walks, into docs/concepts/engine.md.

python docs/engine_diagram.py

Run it after a change of `TRANSITIONS`; a test compares the page with what it would write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from loopwright.engine import RUNNING, TRANSITIONS, Phase, Signal

PAGE = Path(__file__).parent / "concepts" / "engine.md"
BEGIN = "<!-- Written by docs/engine_diagram.py from the table in loopwright.engine: -->"
END = "<!-- The end of what it writes. -->"


def edges() -> dict[tuple[str, str], list[str]]:
    """Signals by pair of phases; the phases of a running run as one where the signal leads out of all of them."""
    sources: dict[tuple[Signal, Phase], list[Phase]] = defaultdict(list)
    for (phase, signal), target in TRANSITIONS.items():
        sources[signal, target].append(phase)
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (signal, target), phases in sources.items():
        together = set(RUNNING) <= set(phases)
        for source in [*(["running"] if together else []), *(p for p in phases if not (together and p in RUNNING))]:
            # Into the middle of a running run leads one way alone: a beginning.
            found[source, "running" if signal == "begin" else target].append(signal)
    return {pair: signals for pair, signals in found.items() if pair[0] != pair[1] or pair[0] in RUNNING}


def diagram() -> Iterable[str]:
    """The diagram, in Mermaid's words."""
    (first,) = {target for (_, signal), target in TRANSITIONS.items() if signal == "begin"}
    lines = {pair: f"{pair[0]} --> {pair[1]}: {', '.join(signals)}" for pair, signals in edges().items()}
    inside = [line for pair, line in lines.items() if set(pair) <= set(RUNNING)]
    yield "stateDiagram-v2"
    yield "    [*] --> idle"
    yield "    state running {"
    yield from (f"        {line}" for line in [f"[*] --> {first}", *inside])
    yield "    }"
    yield from (f"    {line}" for line in lines.values() if line not in inside)


def table() -> Iterable[str]:
    """All rows: phases down, signals across."""
    signals = get_args(Signal)
    yield f"| | {' | '.join(f'`{signal}`' for signal in signals)} |"
    yield f"| --- {'| --- ' * len(signals)}|"
    for phase in get_args(Phase):
        targets = [TRANSITIONS.get((phase, signal)) for signal in signals]
        yield f"| `{phase}` |{''.join(f' {target} |' if target else ' |' for target in targets)}"


def written(page: str) -> str:
    """The page with the part between the marks written anew."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert mark, f"{PAGE} lacks a mark: {BEGIN}"
    assert end, f"{PAGE} lacks a mark: {END}"
    lines = [BEGIN, "", "```mermaid", *diagram(), "```", "", *table(), "", END]
    return before + "\n".join(lines) + after


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
