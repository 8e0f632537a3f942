"""The abort signal (T107 to T110)."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import anyio
import pytest
from kit import Streams, is_cancelled, options

from loopwright.errors import RunCancelled
from loopwright.events import ResponseStart
from loopwright.loop import run_agent_loop
from loopwright.messages import Message
from loopwright.signals import AbortSignal
from loopwright.testing import ScriptedStream


def test_a_new_signal_waits() -> None:
    signal = AbortSignal()
    assert (signal.aborted, signal.reason, signal.listener_count) == (False, None, 0)
    assert repr(signal) == "<AbortSignal waiting>"
    signal.raise_if_aborted()


def test_T107_aborting_twice_is_safe_and_the_first_reason_stays() -> None:
    signal = AbortSignal()
    first = ValueError("first")
    assert signal.abort(first) is True
    assert signal.abort("second") is False
    assert signal.reason is first
    assert repr(signal) == "<AbortSignal aborted>"


def test_T107_without_a_reason_there_is_a_default() -> None:
    signal = AbortSignal()
    signal.abort()
    assert isinstance(signal.reason, RunCancelled)
    with pytest.raises(RunCancelled, match=r"^The run was cancelled\.$") as caught:
        signal.raise_if_aborted()
    assert caught.value is signal.reason


def test_T107_a_run_cancelled_is_raised_as_it_is() -> None:
    signal, reason = AbortSignal(), RunCancelled("closing")
    signal.abort(reason)
    with pytest.raises(RunCancelled) as caught:
        signal.raise_if_aborted()
    assert caught.value is reason


@pytest.mark.parametrize("reason", ["text", 7, ValueError("cause"), KeyboardInterrupt()])
def test_T107_any_other_reason_is_wrapped(reason: object) -> None:
    signal = AbortSignal()
    signal.abort(reason)
    error = signal.error()
    assert error.reason is reason
    assert error.__cause__ is (reason if isinstance(reason, BaseException) else None)


async def test_T107_aborting_after_completion_changes_nothing() -> None:
    signal, history = AbortSignal(), list[Message]()
    await run_agent_loop("hi", history, options(Streams("x")), None, signal)
    before = list(history)
    assert signal.abort("late") is True
    assert history == before


def test_listeners_are_called_once_in_order_in_this_thread() -> None:
    signal, log = AbortSignal(), list[tuple[str, int]]()
    for name in "abc":
        signal.add_listener(lambda name=name: log.append((name, threading.get_ident())))  # type: ignore[misc]
    assert signal.listener_count == 3
    signal.abort()
    signal.abort()
    here = threading.get_ident()
    assert log == [("a", here), ("b", here), ("c", here)]
    assert signal.listener_count == 0


def test_a_listener_sees_the_signal_aborted() -> None:
    signal, seen = AbortSignal(), list[object]()
    signal.add_listener(lambda: seen.append((signal.aborted, signal.reason)))
    signal.abort("now")
    assert seen == [(True, "now")]


def test_a_listener_that_comes_late_is_called_at_once() -> None:
    signal, log = AbortSignal(), list[int]()
    signal.abort()
    undo = signal.add_listener(lambda: log.append(1))
    assert log == [1]
    undo()
    assert signal.listener_count == 0


def test_T108_a_listener_can_be_taken_away_more_than_once() -> None:
    signal, log = AbortSignal(), list[str]()
    undo = signal.add_listener(lambda: log.append("gone"))
    signal.add_listener(lambda: log.append("stays"))
    undo()
    undo()
    assert signal.listener_count == 1
    signal.abort()
    undo()
    assert log == ["stays"]


def test_T108_the_same_function_may_listen_twice() -> None:
    signal, log = AbortSignal(), list[int]()

    def listener() -> None:
        log.append(1)

    undo = signal.add_listener(listener)
    signal.add_listener(listener)
    undo()
    signal.abort()
    assert log == [1]


async def test_T108_a_run_leaves_no_listener_behind() -> None:
    signal = AbortSignal()
    counts = set[int]()
    for _ in range(50):
        await run_agent_loop("hi", [], options(Streams("one two three four")), None, signal)
        counts.add(signal.listener_count)
    assert counts == {0}


def test_one_failing_listener_does_not_stop_the_others() -> None:
    signal, log = AbortSignal(), list[str]()

    def fail(text: str) -> None:
        log.append(text)
        raise ValueError(text)

    signal.add_listener(lambda: fail("a"))
    signal.add_listener(lambda: log.append("b"))
    signal.add_listener(lambda: fail("c"))
    with pytest.raises(ExceptionGroup, match="all listeners were called; some raised") as caught:
        signal.abort("why")
    assert log == ["a", "b", "c"]
    assert [str(error) for error in caught.value.exceptions] == ["a", "c"]
    assert signal.reason == "why"


def test_a_listener_may_abort_add_and_remove() -> None:
    signal, log = AbortSignal(), list[str]()
    undo: list[Callable[[], None]] = []

    def listener() -> None:
        log.append(f"again: {signal.abort('again')}")
        signal.add_listener(lambda: log.append("late"))
        undo[0]()

    undo.append(signal.add_listener(listener))
    signal.abort("first")
    assert log == ["again: False", "late"]
    assert signal.reason == "first"


# ---------------------------------------------------------------- combined


@pytest.mark.parametrize("which", [0, 1, 2])
def test_T109_either_source_aborts_with_its_own_reason(which: int) -> None:
    sources = [AbortSignal() for _ in range(3)]
    combined = AbortSignal.any(*sources)
    assert not combined.aborted
    reason = object()
    sources[which].abort(reason)
    assert combined.reason is reason
    assert [source.listener_count for source in sources] == [0, 0, 0]


def test_T109_the_first_reason_stays() -> None:
    a, b = AbortSignal(), AbortSignal()
    combined = AbortSignal.any(a, b)
    a.abort("a")
    b.abort("b")
    assert combined.reason == "a"


@pytest.mark.parametrize("which", [0, 1])
def test_T109_a_source_that_is_aborted_already_aborts_at_once(which: int) -> None:
    sources = [AbortSignal(), AbortSignal()]
    sources[which].abort("before")
    combined = AbortSignal.any(*sources)
    assert combined.reason == "before"
    assert sources[1 - which].listener_count == 0


def test_T109_the_combined_signal_aborts_no_source_and_lets_go() -> None:
    a, b = AbortSignal(), AbortSignal()
    combined = AbortSignal.any(a, b)
    assert (a.listener_count, b.listener_count) == (1, 1)
    combined.abort("only here")
    assert (a.aborted, b.aborted, a.listener_count, b.listener_count) == (False, False, 0, 0)


def test_T109_closing_cuts_the_links() -> None:
    source = AbortSignal()
    combined = AbortSignal.any(source)
    combined.close()
    combined.close()
    assert source.listener_count == 0
    source.abort()
    assert not combined.aborted
    combined.abort("still can")
    assert combined.reason == "still can"


def test_T109_of_no_sources_it_is_an_ordinary_signal() -> None:
    combined = AbortSignal.any()
    assert not combined.aborted
    assert combined.abort("x") is True


def test_T109_the_same_source_twice() -> None:
    source = AbortSignal()
    combined = AbortSignal.any(source, source)
    source.abort("x")
    assert combined.reason == "x"


def test_T109_combined_signals_can_be_combined() -> None:
    sources = [AbortSignal() for _ in range(2)]
    outer = AbortSignal.any(AbortSignal.any(sources[0]), sources[1])
    sources[0].abort("deep")
    assert outer.reason == "deep"
    assert sources[1].listener_count == 0


def test_T109_an_abort_in_the_middle_of_combining_leaves_no_link() -> None:
    first = AbortSignal()

    class Late(AbortSignal):
        def add_listener(self, listener: Callable[[], object]) -> Callable[[], None]:
            undo = super().add_listener(listener)
            first.abort("meanwhile")
            return undo

    late, never = Late(), AbortSignal()
    combined = AbortSignal.any(first, late, never)
    assert combined.reason == "meanwhile"
    assert (late.listener_count, never.listener_count) == (0, 0)


def test_a_closed_combination_can_be_collected() -> None:
    source = AbortSignal()
    combined = AbortSignal.any(source)
    gone = weakref.ref(combined)
    combined.close()
    del combined
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------- threads


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in many threads that start together."""
    barrier = threading.Barrier(count)
    failures: list[Exception] = []

    def body(n: int) -> None:
        barrier.wait(10)
        try:
            work(n)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)


def test_of_many_threads_one_aborts() -> None:
    for _ in range(20):
        signal, won, calls = AbortSignal(), list[int](), list[int]()
        signal.add_listener(lambda calls=calls: calls.append(1))  # type: ignore[misc]
        in_threads(8, lambda n, signal=signal, won=won: won.append(n) if signal.abort(n) else None)  # type: ignore[misc]
        assert len(won) == 1
        assert signal.reason == won[0]
        assert calls == [1]


def test_no_listener_is_lost_or_called_twice_when_threads_add_and_abort() -> None:
    for _ in range(20):
        signal = AbortSignal()
        called: list[tuple[int, int]] = []

        def work(n: int, signal: AbortSignal = signal, called: list[tuple[int, int]] = called) -> None:
            if n == 0:
                signal.abort()
                return
            for k in range(20):
                signal.add_listener(lambda k=k: called.append((n, k)))  # type: ignore[misc]

        in_threads(5, work)
        assert sorted(called) == [(n, k) for n in range(1, 5) for k in range(20)]


def test_combining_while_a_source_aborts_leaves_nothing_behind() -> None:
    for _ in range(50):
        sources = [AbortSignal(), AbortSignal()]
        made: list[AbortSignal] = []

        def work(n: int, sources: list[AbortSignal] = sources, made: list[AbortSignal] = made) -> None:
            if n == 0:
                sources[1].abort("now")
            else:
                made.append(AbortSignal.any(*sources))

        in_threads(2, work)
        assert made[0].reason == "now"
        assert sources[0].listener_count == 0


async def test_T110_another_thread_wakes_a_run_that_waits() -> None:
    signal, history = AbortSignal(), list[Message]()
    reason = ValueError("from a thread")
    waits = anyio.Event()

    async def hang() -> None:
        waits.set()
        await anyio.sleep_forever()

    async def abort() -> None:
        await waits.wait()
        await anyio.to_thread.run_sync(signal.abort, reason)

    stream = ScriptedStream([ResponseStart(), hang])
    with pytest.raises(RunCancelled) as caught:
        async with anyio.create_task_group() as group:
            group.start_soon(abort)
            try:
                await run_agent_loop("hi", history, options(Streams(stream)), None, signal)
            except RunCancelled as error:
                cancelled = error
        raise cancelled
    assert is_cancelled(caught.value, reason)
    assert [message.role for message in history] == ["user"]
    assert stream.closes == 1
