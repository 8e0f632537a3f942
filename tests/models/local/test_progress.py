"""Telling how far a local model is."""

from __future__ import annotations

import io
import logging

import pytest

from loopwright.models.local.progress import ModelProgress, ProgressPrinter, silent, tell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fetching(done: int) -> ModelProgress:
    return ModelProgress("fetching", "tiny", "", "the hub", "/cache", done, 100_000_000)


def test_plain_lines_say_how_much_from_where_to_where() -> None:
    out = io.StringIO()
    ProgressPrinter(out, clock=lambda: 0.0)(fetching(5_000_000))
    assert out.getvalue() == "[local model] tiny: fetching 5 of 100 MB from the hub to /cache\n"


def test_plain_lines_are_few() -> None:
    out, now = io.StringIO(), [0.0]
    show = ProgressPrinter(out, clock=lambda: now[0])
    for done in range(0, 100_000_000, 1_000_000):
        now[0] += 0.1
        show(fetching(done))
    show(fetching(100_000_000))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert "100 of 100 MB" in lines[-1]


def test_in_a_terminal_one_line_renews_itself_until_it_is_ready() -> None:
    out, now = Terminal(), [0.0]
    show = ProgressPrinter(out, clock=lambda: now[0])
    show(ModelProgress("loading", "tiny", "2 threads"))
    now[0] = 1.0
    show(ModelProgress("ready", "tiny"))
    assert out.getvalue() == ("\r\x1b[K[local model] tiny: loading (2 threads)" + "\r\x1b[K[local model] tiny: ready\n")


def test_without_a_console_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    ProgressPrinter()(ModelProgress("ready", "tiny"))


def test_standard_error_is_looked_up_when_printing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show = ProgressPrinter()
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    show(ModelProgress("ready", "tiny"))
    assert "ready" in out.getvalue()
    assert capsys.readouterr().out == ""


def test_silent_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    silent(ModelProgress("ready", "tiny"))
    assert capsys.readouterr() == ("", "")


def test_a_listener_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def listener(progress: ModelProgress) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        tell(listener, ModelProgress("ready", "tiny"))
    assert "tiny" in caplog.text
    assert "ZeroDivisionError" in caplog.text
