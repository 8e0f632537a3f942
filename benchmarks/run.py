"""Measures CPU time of the loops, each in fresh processes that take turns, and prints medians and ratios.

python benchmarks/run.py [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOOPS = ("plain httpx2", "loopwright httpx2", "plain aiohttp", "loopwright aiohttp")
PAIRS = (("loopwright httpx2", "plain httpx2"), ("loopwright aiohttp", "plain aiohttp"))
SCENARIOS = {
    "loop": ("loop-20", "a step, not streamed"),
    "loop streamed": ("loop-20", "a step, streamed"),
    "text": ("text-5000", "a text delta"),
    "history, first 20 of 200": ("loop-200", "a step at the beginning of a long run"),
    "history, last 20 of 200": ("loop-200", "a step at its end"),
    "500 at once": ("loop-5", "a step, 500 agents in one process"),
}


async def measure(loop_name: str, scenario: str, base_url: str) -> float:
    """CPU microseconds for one of what the scenario counts."""
    from loops import make

    loop = make(loop_name, base_url)
    model = SCENARIOS[scenario][0]
    try:
        match scenario:
            case "loop":
                await loop.run("loop-3")
                begun = time.process_time()
                steps = sum([await loop.run(model) for _ in range(5)])
                return (time.process_time() - begun) / steps * 1e6
            case "loop streamed":
                await loop.stream("loop-3")
                begun = time.process_time()
                for _ in range(5):
                    await loop.stream(model)
                return (time.process_time() - begun) / (5 * 21) * 1e6
            case "text":
                await loop.stream("text-100")
                begun = time.process_time()
                deltas = sum([await loop.stream(model) for _ in range(3)])
                return (time.process_time() - begun) / deltas * 1e6
            case "500 at once":
                await loop.run("loop-3")
                begun = time.process_time()
                steps = sum(await asyncio.gather(*(loop.run(model) for _ in range(500))))
                return (time.process_time() - begun) / steps * 1e6
            case _:
                return await measure_history(loop, at_end="last" in scenario)
    finally:
        await loop.aclose()


async def measure_history(loop: Any, *, at_end: bool) -> float:
    """A window of a run of 200 steps, as the difference of two runs that end at its edges."""

    async def cost(steps: int) -> float:
        begun = time.process_time()
        await loop.run(f"loop-{steps}")
        return time.process_time() - begun

    await loop.run("loop-3")
    low, high = (180, 200) if at_end else (0, 20)
    return statistics.median([(await cost(high) - await cost(low)) / 20 * 1e6 for _ in range(5)])


@contextmanager
def provider() -> Any:
    """The mock provider, for as long as the block."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "mock_provider.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.stdin.close()
        process.wait(10)


def sample(loop_name: str, scenario: str, base_url: str) -> float:
    """One measurement in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", loop_name, scenario, base_url], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return float(json.loads(done.stdout))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asyncio.run(measure(*options.one))))
        return
    print(f"CPU microseconds, median of {options.rounds} rounds; the provider runs in a process of its own\n")
    print(
        f"{'':26}"
        + "".join(f"{name:>20}" for name in LOOPS)
        + "".join(f"{'ratio ' + b.split()[1]:>16}" for _, b in PAIRS)
    )
    with provider() as base_url:
        for scenario, (_, what) in SCENARIOS.items():
            samples: dict[str, list[float]] = {name: [] for name in LOOPS}
            for _ in range(options.rounds):
                for name in LOOPS:
                    samples[name].append(sample(name, scenario, base_url))
            medians = {name: statistics.median(values) for name, values in samples.items()}
            ratios = "".join(f"{medians[ours] / medians[plain]:>16.2f}" for ours, plain in PAIRS)
            print(
                f"{scenario:26}" + "".join(f"{medians[name]:>20.1f}" for name in LOOPS) + ratios + f"   {what}",
                flush=True,
            )


if __name__ == "__main__":
    main()
