"""The runner on recorded traffic, where it is at hand, and on wrong expectations, which it must notice."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
CORPUS = Path(os.environ.get("LOOPWRIGHT_CORPUS") or PROJECT.parent / "shared" / "corpus")

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no recorded traffic at {CORPUS}; set LOOPWRIGHT_CORPUS to its folder"
)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import run

    yield run
    for name in [name for name in sys.modules if name == "run" or name.startswith("corpus_")]:
        del sys.modules[name]


CHUNKS = (
    b'data: {"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"Gr\xc3\xbc"}}]}\r\n\r\n'
    b'data: {"id":"r1","model":"m","choices":[{"index":0,"delta":{"content":"\xc3\x9fe"},"finish_reason":"stop"}]}\r\n'
    b"\r\ndata: [DONE]\r\n\r\n"
)
META = {
    "wire_api": "openai_chat",
    "provider": "openai",
    "model": "m",
    "response": {"status": 200, "headers": {}},
    "expected": {
        "text": "Grüße",
        "finish_reason": "stop",
        "model": "m",
        "response_id": "r1",
        "stream": {"events": 3, "done": True},
    },
}


def write_case(folder: Path, expected: dict | None = None, body: bytes = CHUNKS, **meta: object) -> None:
    folder.mkdir(parents=True)
    (folder / "response.sse").write_bytes(body)
    (folder / "meta.json").write_text(json.dumps(META | meta | {"expected": META["expected"] | (expected or {})}))


def test_good_case_passes(run, tmp_path, capsys):
    write_case(tmp_path / "group" / "one")
    assert run.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"text": "Gruesse"}, "text: 'Grüße'"),
        ({"finish_reason": "length"}, "raw finish reason 'stop'"),
        ({"response_id": "r2"}, "response_id 'r1'"),
        ({"reasoning": "hm"}, "reasoning: ''"),
        ({"refusal": "no"}, "refusal: ''"),
        ({"tool_calls": [{"id": "c", "name": "t", "arguments": {}}]}, "0 tool calls, expected 1"),
        ({"usage": {"input_tokens": 1}}, "usage.input_tokens None, expected 1"),
        ({"error": {"message": "bad"}}, "expected an error in the answer"),
        ({"citations": {"count": 1, "urls": ["u"]}}, "0 sources, expected 1"),
        ({"stream": {"events": 9}}, "3 server-sent events, expected 9"),
        ({"something_new": 1}, "no check for the expected member 'something_new'"),
    ],
)
def test_wrong_expectation_fails(run, tmp_path, capsys, expected, said):
    write_case(tmp_path / "one", expected)
    assert run.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert said in out
    assert out.endswith("\n0 passed, 1 failed\n")


def test_wire_without_codec_fails(run, tmp_path, capsys):
    write_case(tmp_path / "one", wire_api="telegraph")
    write_case(tmp_path / "two")
    assert run.main([str(tmp_path)]) == 1
    assert f"FAILED {tmp_path / 'one'}: no codec for wire 'telegraph'\n" in capsys.readouterr().out


def test_steps_are_one_case(run, tmp_path, capsys):
    write_case(tmp_path / "loop" / "1")
    write_case(tmp_path / "loop" / "2", {"text": "other"})
    (tmp_path / "loop" / "meta.json").write_text("{}")
    assert run.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "step 2: text" in out
    assert out.endswith("0 passed, 1 failed\n")


def test_no_cases_is_a_failure(run, tmp_path, capsys):
    assert run.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "0 passed, 0 failed\n"


@needs_corpus
@pytest.mark.parametrize("group", ["openai_chat", "openai_compatible"])
def test_recorded_traffic(run, group, capsys):
    status = run.main([str(CORPUS / group)])
    assert status == 0, capsys.readouterr().out
