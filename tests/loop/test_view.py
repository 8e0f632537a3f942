"""The request view: what the model at hand is sent of a history (T22 to T45)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import Streams, calls, options

from loopwright.errors import InvalidInputError, LoopwrightError
from loopwright.loop import adapt as adapt_module
from loopwright.loop import run_agent_loop
from loopwright.loop import view as view_module
from loopwright.loop.adapt import fit_id
from loopwright.loop.options import HistorySource, RequestSource, RequestUpdate, ToolRepairSource
from loopwright.loop.view import RequestView
from loopwright.messages import (
    ApprovalMessage,
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    SourcePart,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models.base import Capabilities, ModelInfo
from loopwright.testing import answer
from loopwright.testing.history import history_problems

MODEL = ModelInfo("acme", "acme-chat", "one")
BLIND = replace(MODEL, capabilities=Capabilities(images=False, files=False))
OTHER = ModelInfo("acme", "acme-chat", "two")
IMAGE = ImagePart(b"\x89PNG", "image/png")
PDF = FilePart(b"%PDF", "application/pdf")
GO_ON = UserMessage("go on")


def own(*parts: Any, **fields: Any) -> AssistantMessage:
    """An answer that MODEL wrote."""
    return answer(*parts, provider=MODEL.provider, api=MODEL.api, model=MODEL.name, **fields)


def build(history: list[Message], model: ModelInfo = MODEL) -> tuple[list[Message], list[RequestSource]]:
    messages, sources = RequestView(model).build(history)
    assert len(messages) == len(sources)
    return messages, sources


def content_for(model: ModelInfo, *parts: Any) -> tuple[Any, ...]:
    """An answer of MODEL, as `model` sees it."""
    messages, _ = build([own(*parts)], model)
    return messages[0].content


def result(call_id: str, text: str = "ok", **fields: Any) -> ToolResultMessage:
    return ToolResultMessage(call_id, call_id, text, **fields)


def shown(history: list[Message], model: ModelInfo = MODEL) -> str:
    """Roles of the view; results by call id, repairs with a `?`."""
    messages, _ = build(history, model)
    return " ".join(
        m.tool_call_id + ("?" if m.status == "missing" else "") if isinstance(m, ToolResultMessage) else m.role[0]
        for m in messages
    )


# ---------------------------------------------------------------- where messages come from


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_T22_failed_answers_have_no_entry(reason: str) -> None:
    failed = own("half", finish_reason=reason)
    messages, sources = build([UserMessage("hi"), failed, GO_ON])
    assert messages == [UserMessage("hi"), GO_ON]
    assert sources == [HistorySource(0), HistorySource(2)]


def test_T23_the_lists_belong_to_the_receiver() -> None:
    view, history = RequestView(MODEL), list[Message]([UserMessage("hi"), own("x")])
    messages, sources = view.build(history)
    messages.clear()
    sources.clear()
    again, sources_again = view.build(history)
    assert again == history
    assert sources_again == [HistorySource(0), HistorySource(1)]


def test_T24_golden() -> None:
    history: list[Message] = [
        UserMessage("hi"), own("half", finish_reason="error"), own(*calls("x", "y")), result("x"), GO_ON,
    ]  # fmt: skip
    messages, sources = build(history)
    assert sources == [HistorySource(0), HistorySource(2), HistorySource(3), ToolRepairSource(2, "y"), HistorySource(4)]
    assert messages[3].text == "No result was recorded for this call."


def test_T25_one_missing_id_of_two_answers_is_repaired_for_each() -> None:
    _, sources = build([UserMessage("hi"), own(*calls("x")), own(*calls("x")), GO_ON])
    assert sources == [
        HistorySource(0), HistorySource(1), ToolRepairSource(1, "x"),
        HistorySource(2), ToolRepairSource(2, "x"), HistorySource(3),
    ]  # fmt: skip


def test_T26_equal_messages_keep_their_own_index() -> None:
    same = UserMessage("same")
    assert build([same, same])[1] == [HistorySource(0), HistorySource(1)]


def test_T27_a_switched_model_and_images_change_no_source() -> None:
    history: list[Message] = [
        UserMessage("hi"),
        own("half", finish_reason="error"),
        own(*calls("x", "y")),
        replace(result("x"), content=(IMAGE,)),
        GO_ON,
    ]
    for model in (BLIND, OTHER, replace(OTHER, capabilities=BLIND.capabilities)):
        assert build(history, model)[1] == build(history)[1]


def test_T28_what_needs_no_change_is_the_very_message() -> None:
    history: list[Message] = [UserMessage([TextPart("hi"), IMAGE]), own("x", *calls("x")), result("x"), GO_ON]
    messages, _ = build(history)
    assert all(a is b for a, b in zip(messages, history, strict=True))


def test_T31_a_view_that_lost_track_of_its_sources_is_not_sent() -> None:
    view = RequestView(MODEL)
    view.build([GO_ON])
    view._sources.clear()
    with pytest.raises(LoopwrightError, match="lost track of where its messages come from; nothing was sent"):
        view.build([GO_ON, GO_ON])


async def test_T31_what_is_no_message_is_refused_before_dispatch() -> None:
    streams, history = Streams("x"), list[Message]()
    stray: Any = {"role": "user", "content": "hi"}
    instead = RequestUpdate(messages=[UserMessage("hi"), stray])
    with pytest.raises(InvalidInputError, match="Message 1 is dict, not a message"):
        await run_agent_loop("hi", history, options(streams, prepare_request=lambda _: instead))
    assert streams.count == 0
    assert [message.role for message in history] == ["user"]


def test_T32_the_same_history_gives_the_same_view_synthetic_times_included() -> None:
    history: list[Message] = [UserMessage("hi", 1.0), own(*calls("x", "y"), created_at=5.0), result("y"), GO_ON]
    assert build(history) == build(history)
    repair = build(history)[0][3]
    assert repair == ToolResultMessage("x", "x", "No result was recorded for this call.", "missing", created_at=5.0)


def test_T32_an_answer_without_a_time_gives_a_repair_without_one() -> None:
    assert build([UserMessage("hi"), own(*calls("x"))])[0][2].created_at is None


# ---------------------------------------------------------------- between models


def test_T33_the_model_itself_gets_all_of_its_reasoning_back() -> None:
    signed = ReasoningPart("", signature="sig")
    unsigned = ReasoningPart("")
    redacted = ReasoningPart("", redacted="blob")
    thought = ReasoningPart("hm", signature="sig")
    only_data, only_id = ReasoningPart("", provider_data={"id": "rs_1"}), ReasoningPart("", id="rs_2")
    assert content_for(MODEL, signed, unsigned, redacted, thought, only_data, only_id, "x") == (
        signed, redacted, thought, only_data, only_id, TextPart("x"),
    )  # fmt: skip


def test_T33_signatures_of_text_and_calls_stay_for_the_model_itself() -> None:
    parts = (TextPart("x", "sig"), TextPart("", "sig"), ToolCallPart("1", "t", signature="sig", provider_data={"a": 1}))
    assert content_for(MODEL, *parts) == parts
    assert content_for(MODEL, TextPart(""), "x") == (TextPart("x"),)


@pytest.mark.parametrize(
    ("part", "seen"),
    [
        (ReasoningPart("", signature="sig"), ()),
        (ReasoningPart(""), ()),
        (ReasoningPart("", id="rs_1"), ()),
        (ReasoningPart("", redacted="blob"), ()),
        (ReasoningPart("summary", redacted="blob"), ()),
        (ReasoningPart("hm", signature="sig", provider_data={"id": "rs"}), (TextPart("hm"),)),
        (ReasoningPart("hm"), (TextPart("hm"),)),
        (TextPart("x", "sig"), (TextPart("x"),)),
        (TextPart("x", provider_data={"a": 1}), (TextPart("x"),)),
        (TextPart("", "sig"), ()),
        (TextPart(""), ()),
        (RefusalPart("no"), (RefusalPart("no"),)),
        (ProviderPart("web_search_result", {"a": 1}), ()),
        (ToolCallPart("1", "t", "{}", signature="sig", provider_data={"a": 1}), (ToolCallPart("1", "t", "{}"),)),
        (ToolCallPart("1", "web_search", provider_executed=True), ()),
        (ImagePart(b"x", "image/png", provider_data={"a": 1}), (ImagePart(b"x", "image/png"),)),
        (FilePart(b"x", "text/plain", provider_data={"a": 1}), (FilePart(b"x", "text/plain"),)),
        (SourcePart("https://x", provider_data={"a": 1}), (SourcePart("https://x"),)),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_T34_another_model_gets_only_what_every_model_understands(part: Any, seen: tuple[Any, ...]) -> None:
    messages, _ = build([own(part), UserMessage("x")], OTHER)
    assert messages[0].content == seen


@pytest.mark.parametrize("field", ["provider", "api", "name"])
def test_T35_provider_api_and_name_must_all_be_equal(field: str) -> None:
    thought = ReasoningPart("hm", signature="sig")
    assert content_for(replace(MODEL, **{field: "else"}), thought) == (TextPart("hm"),)
    assert content_for(MODEL, thought) == (thought,)


def test_T35_who_counts_as_the_same_may_be_said_otherwise() -> None:
    thought = ReasoningPart("hm", signature="sig")
    view = RequestView(OTHER, is_same=lambda message, model: message.provider == model.provider)
    assert view.build([own(thought)])[0][0].content == (thought,)


def test_T34_data_of_the_whole_answer_stays_with_its_model() -> None:
    message = own("x", provider_data={"extra": 1})
    assert build([message])[0][0] is message
    assert build([message], OTHER)[0] == [own("x")]


def test_T35_capabilities_do_not_make_another_model() -> None:
    thought = ReasoningPart("hm", signature="sig")
    assert content_for(BLIND, thought) == (thought,)


def strict(model: ModelInfo = OTHER, length: int | None = 9, *, exact: bool = False) -> ModelInfo:
    return replace(
        model,
        capabilities=Capabilities(
            tool_call_id_pattern="a-zA-Z0-9", tool_call_id_max_length=length, tool_call_id_exact_length=exact
        ),
    )


def ids_of(messages: list[Message]) -> tuple[list[str], list[str]]:
    asked = [call.id for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
    return asked, [m.tool_call_id for m in messages if isinstance(m, ToolResultMessage)]


def test_T36_an_id_that_does_not_fit_is_rewritten_for_call_and_result_alike() -> None:
    long = "call|" + "x" * 60
    history: list[Message] = [own(ToolCallPart(long, "t"), *calls("fits")), result(long), result("fits"), GO_ON]
    messages, _ = build(history, strict())
    asked, answered = ids_of(messages)
    assert asked == answered
    assert asked[1] == "fits"
    assert asked[0].isalnum()
    assert len(asked[0]) == 9
    assert ids_of(build(history, strict())[0]) == (asked, answered)


def test_T36_an_id_of_the_model_itself_is_an_opaque_token() -> None:
    long = "call|" + "x" * 60
    messages, _ = build([own(ToolCallPart(long, "t")), result(long)], strict(MODEL))
    assert ids_of(messages) == ([long], [long])


def test_T36_exact_lengths_are_kept_for_short_ids_too() -> None:
    messages, _ = build([own(*calls("a", "b")), result("a"), result("b")], strict(exact=True))
    asked, answered = ids_of(messages)
    assert asked == answered
    assert [len(one) for one in asked] == [9, 9]
    assert asked[0] != asked[1]


def test_T36_two_ids_that_would_look_alike_stay_apart() -> None:
    history: list[Message] = [
        own(*calls("a.b", "ab", "a-b")),
        result("a.b", "1"),
        result("ab", "2"),
        result("a-b", "3"),
    ]
    messages, _ = build(history, strict())
    asked, answered = ids_of(messages)
    assert asked == answered
    assert len(set(asked)) == 3
    assert [m.text for m in messages[1:]] == ["1", "2", "3"]


@pytest.mark.parametrize("model", [MODEL, OTHER, strict()])
def test_T36_an_empty_id_becomes_a_stable_one(model: ModelInfo) -> None:
    history: list[Message] = [own(ToolCallPart("", "s"), ToolCallPart("", "t")), result("", "1"), result("", "2")]
    messages, _ = build(history, model)
    asked, answered = ids_of(messages)
    assert asked == answered
    assert all(asked)
    assert asked[0] != asked[1]
    assert [m.text for m in messages[1:]] == ["1", "2"]
    assert ids_of(build(history, model)[0])[0] == asked


def test_T36_an_id_that_another_model_reuses_is_made_unique_where_ids_have_rules() -> None:
    history: list[Message] = []
    for n in range(3):
        history += [own(*calls("same")), result("same", str(n))]
    messages, _ = build(history, strict())
    asked, answered = ids_of(messages)
    assert asked == answered
    assert len(set(asked)) == 3
    assert asked[0] == "same"
    assert [m.text for m in messages[1::2]] == ["0", "1", "2"]
    assert ids_of(build(history, OTHER)[0])[0] == ["same"] * 3


def test_T36_two_calls_of_one_id_in_one_answer_stay_apart() -> None:
    history: list[Message] = [own(*calls("same", "same")), result("same", "1"), result("same", "2")]
    messages, _ = build(history, strict())
    asked, answered = ids_of(messages)
    assert asked == answered
    assert len(set(asked)) == 2
    assert [m.text for m in messages[1:]] == ["1", "2"]


def constant_ids(turns: int) -> list[Message]:
    return [
        m for n in range(turns) for m in (own(*calls("same", "same")), result("same", f"{n}a"), result("same", f"{n}b"))
    ]


def test_T36_where_there_are_none_a_constant_id_stays_and_so_do_the_messages() -> None:
    history = constant_ids(3)
    messages, _ = build(history, OTHER)
    assert all(a is b for a, b in zip(messages, history, strict=True))


def test_T36_a_constant_id_costs_the_same_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []
    original = adapt_module.blake2b

    def counted(data: bytes) -> Any:
        hashed.append(data)
        return original(data)

    monkeypatch.setattr(adapt_module, "blake2b", counted)
    build(constant_ids(100), strict())
    assert len(hashed) <= 2 * 200


@pytest.mark.parametrize("model", [MODEL, OTHER, strict()])
def test_T36_the_id_that_an_empty_one_becomes_is_no_sibling_s(model: ModelInfo) -> None:
    first = ids_of(build([own(ToolCallPart("", "t"))], model)[0])[0][0]
    history: list[Message] = [own(ToolCallPart(first, "s"), ToolCallPart("", "t")), result("", "2"), result(first, "1")]
    asked, answered = ids_of(build(history, model)[0])
    assert asked[0] == first
    assert asked[0] != asked[1]
    assert answered == [asked[1], asked[0]]


def test_T36_a_repair_carries_the_id_that_was_sent_and_its_source_the_recorded_one() -> None:
    history: list[Message] = [own(ToolCallPart("a|b", "t")), GO_ON]
    messages, sources = build(history, strict())
    assert ids_of(messages) == (["ab"], ["ab"])
    assert sources[1] == ToolRepairSource(0, "a|b")


@given(st.text(max_size=80), st.sampled_from([None, "a-zA-Z0-9", "a-zA-Z0-9_-"]), st.integers(9, 64), st.booleans())
def test_T36_any_id_comes_to_fit_its_vendor(call_id: str, pattern: str | None, length: int, exact: bool) -> None:
    capabilities = Capabilities(
        tool_call_id_pattern=pattern, tool_call_id_max_length=length, tool_call_id_exact_length=exact
    )
    fitted = fit_id(call_id, capabilities)
    assert fitted
    assert len(fitted) == length if exact else len(fitted) <= length
    assert pattern is None or all(c.isascii() and (c.isalnum() or ("_" in pattern and c in "_-")) for c in fitted)
    assert fit_id(call_id, capabilities) == fitted
    assert fit_id(call_id, capabilities, [fitted]) != fitted


USER_NOTE = TextPart("[An image or file stood here that this model cannot take.]")
RESULT_NOTE = TextPart("[The tool returned an image or file that this model cannot take.]")


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ([IMAGE], [USER_NOTE]),
        ([IMAGE, IMAGE, PDF], [USER_NOTE]),
        ([TextPart("a"), IMAGE, IMAGE, TextPart("b"), IMAGE], [TextPart("a"), USER_NOTE, TextPart("b"), USER_NOTE]),
        ([TextPart("a")], [TextPart("a")]),
    ],
    ids=["image", "run", "runs", "text"],
)
def test_T37_a_run_of_images_becomes_one_note(content: list[Any], seen: list[Any]) -> None:
    history: list[Message] = [UserMessage(content), own(*calls("x")), ToolResultMessage("x", "x", content)]
    messages, _ = build(history, BLIND)
    assert list(messages[0].content) == seen
    assert list(messages[2].content) == [RESULT_NOTE if part == USER_NOTE else part for part in seen]
    assert build(history)[0] == history


def test_T37_images_and_files_are_judged_apart() -> None:
    sees = replace(MODEL, capabilities=Capabilities(images=True, files=False))
    messages, _ = build([UserMessage([IMAGE, PDF])], sees)
    assert messages[0].content == (IMAGE, USER_NOTE)


def test_T37_what_else_a_result_says_stays() -> None:
    given_result = ToolResultMessage("x", "x", [IMAGE], "error", details={"a": 1}, created_at=3.0)
    messages, _ = build([own(*calls("x")), given_result], BLIND)
    assert messages[1] == replace(given_result, content=(RESULT_NOTE,))


# ---------------------------------------------------------------- pairing


@pytest.mark.parametrize(
    ("after", "seen"),
    [
        ([], "u a x?"),
        ([own("next")], "u a x? a"),
        ([GO_ON], "u a x? u"),
        ([ApprovalMessage(())], "u a x?"),
        ([own("half", finish_reason="error"), GO_ON], "u a x? u"),
    ],
    ids=["end", "assistant", "user", "approval", "failed"],
)
def test_T38_a_missing_result_is_repaired_once(after: list[Message], seen: str) -> None:
    history: list[Message] = [UserMessage("hi"), own(ToolCallPart("x", "look_up")), *after]
    assert shown(history) == seen
    repair = build(history)[0][2]
    assert isinstance(repair, ToolResultMessage)
    assert (repair.is_error, repair.tool_name) == (True, "look_up")


@pytest.mark.parametrize(("there", "seen"), [("x", "u a x y?"), ("y", "u a y x?")])
def test_T39_of_partial_results_only_the_missing_is_repaired(there: str, seen: str) -> None:
    assert shown([UserMessage("hi"), own(*calls("x", "y")), result(there)]) == seen


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_T40_results_of_a_skipped_answer_are_dropped(reason: str) -> None:
    failed = own(*calls("x"), finish_reason=reason)
    assert shown([UserMessage("hi"), failed, result("x"), GO_ON]) == "u u"


@pytest.mark.parametrize("between", [GO_ON, own("next")])
def test_T41_a_late_result_is_dropped(between: Message) -> None:
    history: list[Message] = [UserMessage("hi"), own(*calls("x")), between, result("x", "late")]
    messages, _ = build(history)
    assert [m.text for m in messages if isinstance(m, ToolResultMessage)] == ["No result was recorded for this call."]


def test_T41_a_second_result_of_one_call_is_dropped() -> None:
    messages, sources = build(
        [own(*calls("x", "y")), result("x", "1"), result("x", "2"), result("y"), result("y", "2")]
    )
    assert [m.text for m in messages[1:]] == ["1", "ok"]
    assert sources == [HistorySource(0), HistorySource(1), HistorySource(3)]


def test_T42_a_constant_id_over_three_turns_loses_nothing() -> None:
    history: list[Message] = [UserMessage("hi")]
    for n in range(3):
        history += [own(*calls("same")), result("same", str(n))]
    messages, sources = build(history)
    assert messages == history
    assert sources == [HistorySource(n) for n in range(7)]


def test_T42_a_constant_id_within_one_answer_is_paired_by_place() -> None:
    messages, _ = build([own(*calls("same", "same")), result("same", "1"), result("same", "2")])
    assert [m.text for m in messages[1:]] == ["1", "2"]


def test_T43_orphans_at_the_head_are_dropped() -> None:
    messages, sources = build([result("gone"), result("gone too"), UserMessage("hi")])
    assert (messages, sources) == ([UserMessage("hi")], [HistorySource(2)])


def test_T43_a_result_of_an_unknown_call_is_dropped() -> None:
    assert shown([own(*calls("x")), result("stranger"), result("x")]) == "a x"


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_T44_no_content_is_empty_content(role: str) -> None:
    nothing: Any = None
    lax: dict[str, list[Message]] = {
        "user": [UserMessage(nothing)],
        "assistant": [replace(own(), content=nothing)],
        "tool": [own(*calls("x")), ToolResultMessage("x", "x", nothing)],
    }
    messages, _ = build(lax[role])
    assert messages[-1].content == ()


def test_T44_an_answer_left_without_parts_keeps_its_entry() -> None:
    messages, sources = build([UserMessage("hi"), own(ReasoningPart("", redacted="blob")), GO_ON], OTHER)
    assert [m.content for m in messages[1:2]] == [()]
    assert sources == [HistorySource(0), HistorySource(1), HistorySource(2)]


def test_T45_G6_approval_parts_and_answers_never_reach_the_model() -> None:
    history: list[Message] = [
        UserMessage("hi"),
        own(*calls("a", "b", "c"), ToolApprovalRequestPart("ap", "b")),
        result("a"),
        result("c"),
        ApprovalMessage((ToolApprovalResponsePart("ap", True),)),
        result("b"),
    ]
    messages, sources = build(history)
    assert messages == [history[0], own(*calls("a", "b", "c")), history[2], history[3], history[5]]
    assert sources == [HistorySource(at) for at in (0, 1, 2, 3, 5)]


def test_T45_while_the_answer_waits_its_call_is_repaired() -> None:
    history: list[Message] = [own(*calls("a"), ToolApprovalRequestPart("ap", "a")), GO_ON]
    assert shown(history) == "a a? u"


@pytest.mark.parametrize("model", [MODEL, OTHER])
def test_C29_calls_that_the_provider_runs_are_not_repaired(model: ModelInfo) -> None:
    served = ToolCallPart("s", "web_search", provider_executed=True)
    assert shown([own(served, *calls("x")), GO_ON], model) == "a x? u"
    assert shown([own(served, "found it"), GO_ON], model) == "a u"


@pytest.mark.parametrize("wrong", [{"role": "user"}, "hi", None])
def test_what_is_no_message_is_refused_and_not_passed_over(wrong: Any) -> None:
    view = RequestView(MODEL)
    with pytest.raises(InvalidInputError, match=f"Message 1 is {type(wrong).__name__}, not a message"):
        view.build([UserMessage("hi"), wrong])
    assert view.build([UserMessage("hi"), GO_ON]) == build([UserMessage("hi"), GO_ON])


# ---------------------------------------------------------------- built as it grows


@pytest.fixture
def adapted(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Counts how often each message is adapted."""
    counts: Counter[int] = Counter()
    for name in ("adapt_user", "adapt_assistant", "adapt_result"):
        original = getattr(view_module, name)

        def counted(message: Any, *args: Any, original: Any = original, **kwargs: Any) -> Any:
            counts[id(message)] += 1
            return original(message, *args, **kwargs)

        monkeypatch.setattr(view_module, name, counted)
    return counts


def long_history(turns: int) -> list[Message]:
    history: list[Message] = [UserMessage([TextPart("hi"), IMAGE])]
    for n in range(turns):
        history += [own("thinking", ToolCallPart(f"call|{n}", "t")), result(f"call|{n}", str(n))]
    return history


@pytest.mark.parametrize("model", [MODEL, strict(), replace(OTHER, capabilities=BLIND.capabilities)])
def test_each_message_is_adapted_once_however_often_the_view_is_built(model: ModelInfo, adapted: Counter[int]) -> None:
    history, view = long_history(20), RequestView(model)
    before: list[Message] = []
    for length in range(1, len(history) + 1):
        messages, _ = view.build(history[:length])
        settled = before[:-1]  # the last one may have been a repair
        assert all(a is b for a, b in zip(settled, messages, strict=False))
        before = messages
    assert set(adapted) == set(map(id, history))
    assert set(adapted.values()) == {1}


def test_a_call_that_waits_is_looked_at_again_and_its_answer_is_not(adapted: Counter[int]) -> None:
    asking = own(*calls("x", "y"))
    history: list[Message] = [UserMessage("hi"), asking]
    view = RequestView(MODEL)
    assert view.build(history)[1][2:] == [ToolRepairSource(1, "x"), ToolRepairSource(1, "y")]
    history.append(result("y"))
    assert view.build(history)[1][2:] == [HistorySource(2), ToolRepairSource(1, "x")]
    history.append(result("x"))
    assert view.build(history)[1][2:] == [HistorySource(2), HistorySource(3)]
    assert adapted[id(asking)] == 1


def test_building_again_without_news_gives_the_same(adapted: Counter[int]) -> None:
    history, view = long_history(3), RequestView(MODEL)
    first = view.build(history)
    assert view.build(history) == first
    assert view.build(tuple(history)) == first
    assert set(adapted.values()) == {1}


@pytest.mark.parametrize("at", [0, 1, 3, 6])
def test_a_changed_prefix_is_read_anew(at: int) -> None:
    history, view = long_history(3), RequestView(MODEL)
    view.build(history)
    history[at] = replace(history[at], created_at=9.0)
    history.append(GO_ON)
    assert view.build(history) == RequestView(MODEL).build(history)
    assert view.build(history)[0][at].created_at == 9.0


def test_a_history_that_shrank_is_read_anew() -> None:
    history, view = long_history(3), RequestView(MODEL)
    view.build(history)
    compacted: list[Message] = [UserMessage("in short"), *history[5:]]
    assert view.build(compacted) == RequestView(MODEL).build(compacted)
    assert view.build([]) == ([], [])
    assert view.build(history) == RequestView(MODEL).build(history)


def test_ids_of_an_earlier_reading_do_not_linger() -> None:
    view = RequestView(strict())
    view.build([own(*calls("a.b")), result("a.b")])
    fresh: list[Message] = [own(*calls("ab")), result("ab")]
    assert ids_of(view.build(fresh)[0]) == (["ab"], ["ab"])


call_ids = st.sampled_from(["", "a", "b", "a.b", "ab"])
model_names = st.sampled_from(["one", "two"])
call_parts = st.builds(ToolCallPart, call_ids, st.just("t"), provider_executed=st.sampled_from([False, False, True]))
assistant_parts = st.one_of(
    call_parts,
    call_parts,
    st.builds(TextPart, st.sampled_from(["", "x"]), st.sampled_from([None, "sig"])),
    st.builds(ReasoningPart, st.sampled_from(["", "hm"]), st.sampled_from([None, "sig"])),
    st.just(ToolApprovalRequestPart("ap", "a")),
    st.just(ProviderPart("k", {})),
)
media_parts = st.sampled_from([TextPart("x"), TextPart(""), IMAGE, PDF])
random_messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, st.lists(media_parts, max_size=3)),
    st.builds(
        AssistantMessage,
        st.lists(assistant_parts, max_size=4).map(tuple),
        st.just("acme"),
        st.just("acme-chat"),
        model_names,
        st.sampled_from(["stop", "tool-calls", "error", "aborted"]),
        created_at=st.sampled_from([None, 1.0]),
    ),
    st.builds(ToolResultMessage, call_ids, st.just("t"), st.lists(media_parts, max_size=2)),
    st.builds(ToolResultMessage, call_ids, st.just("t"), st.lists(media_parts, max_size=2)),
    st.just(ApprovalMessage(())),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(random_messages, max_size=12), st.sampled_from([MODEL, BLIND, OTHER, strict(), strict(exact=True)]))
def test_building_as_it_grows_equals_building_anew(history: list[Message], model: ModelInfo) -> None:
    view = RequestView(model)
    for length in range(len(history) + 1):
        prefix = history[:length]
        messages, sources = view.build(prefix)
        assert (messages, sources) == RequestView(model).build(prefix)
        assert pairing_problems(messages) == []
        origins = [source.message_index for source in sources if isinstance(source, HistorySource)]
        assert origins == sorted(set(origins))


@settings(max_examples=150, deadline=None)
@given(st.lists(random_messages, max_size=12), st.booleans())
def test_T36_ids_that_others_wrote_are_unique_and_fit(history: list[Message], exact: bool) -> None:
    asked, answered = ids_of(build(history, strict(replace(MODEL, name="three"), exact=exact))[0])
    assert len(set(asked)) == len(asked)
    assert asked == answered or set(asked) == set(answered)
    assert all(one.isalnum() and (len(one) == 9 if exact else len(one) <= 9) for one in asked)


def pairing_problems(messages: list[Message]) -> list[str]:
    """What an independent reader of the pairing rule says, but for the order: results stand as they came."""
    problems = history_problems(messages)
    return [problem for problem in problems if "not in the order" not in problem]


@settings(max_examples=100, deadline=None)
@given(st.lists(random_messages, max_size=8), st.lists(random_messages, max_size=8))
def test_one_view_may_be_given_any_histories_in_turn(first: list[Message], second: list[Message]) -> None:
    view = RequestView(OTHER)
    for history in (first, second, first + second, second + first, first):
        assert view.build(history) == RequestView(OTHER).build(history)
