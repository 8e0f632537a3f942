"""Replay recorded provider traffic through the wire codecs: `python tests/corpus/run.py DIR [DIR...]`.

Prints a line for each failure and, last, `N passed, N failed`. The exit status is 1 if any failed.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from corpus_cases import Case, Exchange, find_cases
from corpus_checks import expectation_faults
from corpus_codecs import CODECS
from corpus_events import event_faults
from corpus_history import history_faults
from corpus_replay import Outcome, replay, ways_to_cut

from loopwright.errors import ModelError
from loopwright.messages import AssistantMessage
from loopwright.models.base import ModelInfo
from loopwright.models.codec import Codec


def read_exchange(codec: Codec, model: ModelInfo, exchange: Exchange) -> Outcome:
    """What the codec makes of an answer that comes in one piece."""
    if exchange.status >= 400:
        return Outcome(None, codec.error(exchange.status, exchange.headers, exchange.body), [])
    if exchange.is_stream:
        return replay(codec, model, [exchange.body])
    try:
        return Outcome(codec.decode(model, exchange.body), None, [])
    except ModelError as error:
        return Outcome(None, error, [])


def exchange_faults(codec: Codec, model: ModelInfo, exchange: Exchange, outcome: Outcome) -> Iterator[str]:
    """One sentence for each thing that is wrong with how an answer was read."""
    yield from expectation_faults(exchange, outcome)
    if not exchange.is_stream or exchange.status >= 400:
        return
    yield from event_faults(outcome)
    for name, pieces in ways_to_cut(exchange.body, exchange.name):
        other = replay(codec, model, pieces)
        if other.comparable != outcome.comparable:
            yield f"cut {name}, the body reads differently"
            break


def case_faults(case: Case) -> Iterator[str]:
    """One line for each thing that is wrong with a case."""
    first = case.exchanges[0]
    make_codec = CODECS.get(first.wire)
    if make_codec is None:
        yield f"no codec for wire {first.wire!r}"
        return
    codec = make_codec(first.provider)
    answers: list[AssistantMessage | None] = []
    for number, exchange in enumerate(case.exchanges, 1):
        model = ModelInfo(exchange.provider, codec.api, str(exchange.meta.get("model") or ""))
        outcome = read_exchange(codec, model, exchange)
        answers.append(outcome.message)
        prefix = f"step {number}: " if len(case.exchanges) > 1 else ""
        for fault in exchange_faults(codec, model, exchange, outcome):
            yield prefix + fault
    if first.wire == "openai_chat":
        model = ModelInfo(first.provider, codec.api, str(first.meta.get("model") or ""))
        yield from history_faults(codec, model, case.exchanges, answers)


def checked(case: Case) -> list[str]:
    """All faults of a case; a crash is one."""
    try:
        return list(case_faults(case))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"]


def main(arguments: list[str]) -> int:
    """Run, print, and return the exit status."""
    folders = [Path(argument) for argument in arguments]
    if not folders or not all(folder.is_dir() for folder in folders):
        print("usage: python tests/corpus/run.py DIR [DIR...]  (folders with recorded cases)", file=sys.stderr)
        return 2
    passed = failed = 0
    for case in find_cases(folders):
        faults = checked(case)
        passed += not faults
        failed += bool(faults)
        for fault in faults:
            print(f"FAILED {case.folder}: {fault}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
