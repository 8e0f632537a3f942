"""Scripted models: they give what the script says, once, and fail a test that asks for more or less."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.agent import ToolLoopAgent
from loopwright.events import (
    File,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseDone,
    ResponseError,
    ResponseStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from loopwright.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    RefusalPart,
    SourcePart,
    TextPart,
    ToolCallPart,
    UserMessage,
)
from loopwright.models.base import ModelRequest, ModelStream, RequestContext
from loopwright.testing import ScriptedModel, ScriptedStream, answer, call, events_of
from loopwright.tools import tool
from loopwright.usage import Usage


def request(text: str = "hi") -> ModelRequest:
    return ModelRequest(RequestContext([UserMessage(text)]))


async def played(stream: ModelStream) -> list[ModelEvent]:
    return [event async for event in stream]


async def streamed(model: ScriptedModel) -> AssistantMessage:
    stream = await model.stream(request())
    last = (await played(stream))[-1]
    assert isinstance(last, ResponseDone)
    assert await stream.result() is last.message
    return last.message


# ---------------------------------------------------------------- making answers


def test_an_answer_is_made_of_text_and_parts() -> None:
    asked = call("t")
    assert answer("a", "b") == AssistantMessage((TextPart("a"), TextPart("b")), finish_reason="stop")
    assert answer("a", asked) == AssistantMessage((TextPart("a"), asked), finish_reason="tool-calls")
    assert answer(asked, finish_reason="length").finish_reason == "length"
    assert answer("a", usage=Usage(1, 2), model="m").usage == Usage(1, 2)


def test_a_call_has_its_arguments_as_json_and_an_id_made_of_them() -> None:
    asked = call("find", order_id="17", deep=True)
    assert asked.input == {"order_id": "17", "deep": True}
    assert asked.id.startswith("call_find_")
    assert asked == call("find", order_id="17", deep=True)
    assert asked.id != call("find", order_id="18", deep=True).id
    assert call("find", id="mine").id == "mine"
    assert call("find", name="x").input == {"name": "x"}


def test_events_of_an_answer() -> None:
    source, image, document = SourcePart("https://x"), ImagePart(b"x", "image/png"), FilePart(b"y", "text/plain")
    message = answer(
        ReasoningPart("hm"),
        "two words",
        ToolCallPart("1", "t", '{"a": "long"}'),
        RefusalPart("no"),
        source,
        image,
        document,
    )
    assert events_of(message) == [
        ResponseStart(),
        ReasoningStart(0), ReasoningDelta(0, "hm"), ReasoningEnd(0),
        TextStart(1), TextDelta(1, "two "), TextDelta(1, "words"), TextEnd(1),
        ToolInputStart(2, "1", "t"), ToolInputDelta(2, "1", '{"a": "l'), ToolInputDelta(2, "1", 'ong"}'), ToolInputEnd(2, "1"),
        Source(source), File(image), File(document),
        ResponseDone(message),
    ]  # fmt: skip


def test_a_failed_answer_ends_in_an_error() -> None:
    message = answer("half", finish_reason="error")
    assert events_of(message)[-1] == ResponseError(message)
    assert events_of(answer("half", finish_reason="aborted"))[-1].type == "response-error"


@given(st.text(max_size=40), st.text(max_size=40))
def test_the_pieces_join_to_the_whole(text: str, arguments: str) -> None:
    events = events_of(answer(text, ToolCallPart("1", "t", arguments)))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    assert "".join(event.delta for event in events if isinstance(event, ToolInputDelta)) == arguments
    assert all(event.text for event in events if isinstance(event, TextDelta))


# ---------------------------------------------------------------- scripts

CALL = call("t", a=1)
SCRIPTS: list[tuple[Any, AssistantMessage]] = [
    ("text", answer("text")),
    (answer("x", CALL), answer("x", CALL)),
    ([TextPart("x"), CALL], answer("x", CALL)),
    (["Looking.", CALL], answer("Looking.", CALL)),
    (CALL, answer(CALL)),
    ([ResponseStart(), ResponseDone(answer("x"))], answer("x")),
    ([ResponseDone(answer("x"))], answer("x")),
    (lambda request: "from a function", answer("from a function")),
    (lambda request: request.context.messages[0].text, answer("hi")),
]


@pytest.mark.parametrize(("script", "message"), SCRIPTS, ids=lambda value: type(value).__name__)
async def test_generate_and_stream_agree(script: Any, message: AssistantMessage) -> None:
    model = ScriptedModel([script, script])
    whole, in_pieces = await model.generate(request()), await streamed(model)
    assert whole == in_pieces
    assert whole.content == message.content
    assert whole.finish_reason == message.finish_reason
    assert (whole.provider, whole.api, whole.model) == ("scripted", "scripted", "script")


async def test_a_function_may_be_async() -> None:
    async def later(request: ModelRequest) -> str:
        await anyio.lowlevel.checkpoint()
        return f"to {request.context.messages[0].text}"

    model = ScriptedModel([later])
    assert (await model.generate(request("you"))).text == "to you"


async def test_what_a_function_asserts_fails_the_request() -> None:
    def check(request: ModelRequest) -> str:
        assert request.context.system == "be nice"
        return "x"

    with pytest.raises(AssertionError):
        await ScriptedModel([check]).stream(request())


async def test_a_model_says_who_it_is() -> None:
    model = ScriptedModel(["x"], provider="acme", api="acme-chat", name="one")
    message = await model.generate(request())
    assert (message.provider, message.api, message.model) == ("acme", "acme-chat", "one")
    assert repr(model) == "<ScriptedModel acme:one, 1 of 1 answers given>"


async def test_an_answer_that_names_its_model_keeps_the_name() -> None:
    model = ScriptedModel([answer("x", provider="other", model="m")])
    assert (await model.generate(request())).provider == "other"


@pytest.mark.parametrize("way", ["generate", "stream"])
async def test_an_exception_is_raised(way: str) -> None:
    error = ValueError("refused")
    model = ScriptedModel([error])
    with pytest.raises(ValueError, match="refused") as caught:
        await getattr(model, way)(request())
    assert caught.value is error
    model.assert_done()


async def test_an_exception_in_the_middle_breaks_both_ways() -> None:
    script = [ResponseStart(), TextStart(0), ValueError("broke")]
    model = ScriptedModel([script, script])
    with pytest.raises(ValueError, match="broke"):
        await model.generate(request())
    stream = await model.stream(request())
    assert [await anext(stream), await anext(stream)] == [ResponseStart(), TextStart(0)]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="broke"):
        await anext(stream)  # type: ignore[arg-type]


async def test_a_failed_answer_is_given_whole_or_on_its_cause() -> None:
    half = answer("half", finish_reason="error")
    model = ScriptedModel([[ResponseStart(), ResponseError(half, ValueError("cause"))], half])
    with pytest.raises(ValueError, match="cause") as caught:
        await model.generate(request())
    told: Any = caught.value
    assert (told.answer.failed, told.answer.text) == (True, "half")
    given_back = await model.generate(request())
    assert (given_back.failed, given_back.text, given_back.error) == (True, "half", None)


async def test_a_script_without_an_end_cannot_be_given_whole() -> None:
    with pytest.raises(AssertionError, match="must end with ResponseDone or ResponseError"):
        await ScriptedModel([[ResponseStart()]]).generate(request())


@pytest.mark.parametrize("step", [[ResponseStart(), "text"], [CALL, ResponseDone(answer("x"))], [3], [None]])
async def test_what_cannot_stand_in_a_script_is_named(step: Any) -> None:
    with pytest.raises(TypeError, match="A scripted answer cannot hold"):
        await ScriptedModel([step]).stream(request())


# ---------------------------------------------------------------- running out


async def test_each_request_is_kept_and_takes_the_next_answer() -> None:
    model = ScriptedModel(["one", "two"])
    first, second = request("a"), request("b")
    assert (await model.generate(first)).text == "one"
    assert (await model.generate(second)).text == "two"
    assert model.requests == [first, second]
    assert model.requests[0] is first
    model.assert_done()


@pytest.mark.parametrize("way", ["generate", "stream"])
async def test_a_script_that_runs_out_says_what_it_was_asked(way: str) -> None:
    model = ScriptedModel(["one"])
    await model.generate(request())
    with pytest.raises(AssertionError, match="asked 2 times, but its script has only 1 answers.*'and then'"):
        await getattr(model, way)(request("and then"))


async def test_the_last_answer_may_repeat() -> None:
    model = ScriptedModel(["one", "two"], repeat_last=True)
    assert [(await model.generate(request())).text for _ in range(4)] == ["one", "two", "two", "two"]
    model.assert_done()


async def test_an_empty_script_has_no_last_answer() -> None:
    with pytest.raises(AssertionError, match="its script has only 0 answers"):
        await ScriptedModel([], repeat_last=True).generate(request())


async def test_answers_that_were_never_asked_for_fail() -> None:
    model = ScriptedModel(["one", "two", "three"])
    await model.generate(request())
    with pytest.raises(AssertionError, match="2 of 3 scripted answers were never asked for"):
        model.assert_done()


async def test_the_context_manager_checks_at_the_end() -> None:
    with pytest.raises(AssertionError, match="1 of 1 scripted answers"), ScriptedModel(["one"]):
        pass
    with ScriptedModel(["one"]) as model:
        await model.generate(request())


async def test_the_context_manager_hides_no_other_failure() -> None:
    with pytest.raises(ValueError, match="mine"), ScriptedModel(["one"]):
        raise ValueError("mine")


# ---------------------------------------------------------------- streams


async def test_a_gate_holds_the_stream() -> None:
    gate, reached = anyio.Event(), anyio.Event()

    async def wait() -> None:
        reached.set()
        await gate.wait()

    model = ScriptedModel([[ResponseStart(), wait, ResponseDone(answer("x"))]])
    stream = await model.stream(request())
    seen: list[ModelEvent] = []

    async def read() -> None:
        async for event in stream:
            seen.append(event)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await reached.wait()
        assert seen == [ResponseStart()]
        gate.set()
    assert [event.type for event in seen] == ["response-start", "response-done"]


async def test_a_gate_holds_generate_too() -> None:
    log: list[str] = []

    async def gate() -> None:
        log.append("gate")

    model = ScriptedModel([[ResponseStart(), gate, ResponseDone(answer("x"))]])
    assert (await model.generate(request())).text == "x"
    assert log == ["gate"]


async def test_a_stream_counts_what_was_done_with_it() -> None:
    stream = ScriptedStream(events_of(answer("x")))
    events = await played(stream)
    assert stream.reads == len(events) + 1
    assert (await stream.result()).text == "x"
    await stream.aclose()
    await stream.aclose()
    assert (stream.result_reads, stream.closes) == (1, 2)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_stream_has_no_result_before_its_end() -> None:
    stream = ScriptedStream(events_of(answer("x")))
    await anext(stream)
    with pytest.raises(AssertionError, match="before the scripted stream was done"):
        await stream.result()


async def test_a_stream_may_give_another_result_than_its_last_event() -> None:
    stream = ScriptedStream(events_of(answer("x")), answer("y"))
    await played(stream)
    assert (await stream.result()).text == "y"


async def test_the_model_keeps_its_streams() -> None:
    model = ScriptedModel(["x"])
    stream = await model.stream(request())
    assert model.streams == [stream]


# ---------------------------------------------------------------- in an agent


@tool
async def t(a: int) -> int:
    """Count."""
    return a + 1


class Agent(ToolLoopAgent):
    """Has one tool."""

    instructions = ""
    tools = [t]


@pytest.mark.parametrize(
    "script",
    [
        ["text"],
        [["Looking.", CALL], "done"],
        [CALL, [CALL, call("t", a=2)], "done"],
        [call("t", a="many"), call("unknown"), "done"],
        [[ReasoningPart("hm"), TextPart("x"), SourcePart("https://x")]],
    ],
)
async def test_an_agent_comes_to_the_same_end_either_way(script: list[Any]) -> None:
    with ScriptedModel(script) as model:
        whole = await Agent(model=model).generate("go")
    with ScriptedModel(script) as model:
        async with Agent(model=model).stream("go") as run:
            async for _ in run:
                pass
            in_pieces = await run.result()
    assert list(map(_timeless, whole.messages)) == list(map(_timeless, in_pieces.messages))
    assert [step.finish_reason for step in whole.steps] == [step.finish_reason for step in in_pieces.steps]


def _timeless(message: Message) -> Any:
    return type(message), message.content, getattr(message, "status", None), getattr(message, "finish_reason", None)
