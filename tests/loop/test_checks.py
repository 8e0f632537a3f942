"""What is refused before anything changes, and in which words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kit import MODEL, TEXT_ONLY, Streams, options

from loopwright.errors import ContentRequiredError, InvalidArgumentError, InvalidContentError, InvalidInputError
from loopwright.loop import run_agent_loop
from loopwright.loop.checks import check_content, check_history, check_options
from loopwright.messages import (
    ApprovalMessage,
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models.base import Capabilities
from loopwright.tools.base import Tool

IMAGE = ImagePart(b"\x89PNG", "image/png")
PDF = FilePart(b"%PDF", "application/pdf")
LINK = ImagePart(url="https://example.org/a.png")

# ---------------------------------------------------------------- content


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("hi", (TextPart("hi"),)),
        ([TextPart("hi")], (TextPart("hi"),)),
        ((TextPart("hi"), IMAGE), (TextPart("hi"), IMAGE)),
        ([IMAGE], (IMAGE,)),
        ([PDF], (PDF,)),
        ([LINK], (LINK,)),
        ([TextPart(" "), IMAGE], (TextPart(" "), IMAGE)),
        ([TextPart(""), TextPart("x")], (TextPart(""), TextPart("x"))),
    ],
    ids=["text", "part", "tuple", "image", "file", "url", "blank and image", "empty and text"],
)
def test_content_that_can_be_sent_is_copied_as_it_is(content: Any, parts: tuple[Any, ...]) -> None:
    assert check_content(content, MODEL) == parts


def test_T9_a_list_that_changes_later_changes_nothing() -> None:
    content: list[Any] = [TextPart("hi"), IMAGE]
    parts = check_content(content, MODEL)
    content.clear()
    assert parts == (TextPart("hi"), IMAGE)


@pytest.mark.parametrize(
    "content", ["", " ", "\n\t ", "\u2003", [], (), [TextPart("")], [TextPart(" "), TextPart("\n")]]
)
def test_T4_nothing_but_blanks_is_required_to_be_more(content: Any) -> None:
    with pytest.raises(ContentRequiredError, match="The content is empty. Say something"):
        check_content(content, MODEL)


def test_T4_no_content_at_all_is_required() -> None:
    nothing: Any = None
    with pytest.raises(ContentRequiredError, match="There is no content. Say something"):
        check_content(nothing, MODEL)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (None, "Part 1 of the content is NoneType, not a TextPart, ImagePart or FilePart"),
        ("text", "Part 1 of the content is str"),
        ({"type": "text"}, "Part 1 of the content is dict"),
        (ReasoningPart("hm"), "Part 1 of the content is ReasoningPart"),
        (ToolCallPart("1", "t"), "Part 1 of the content is ToolCallPart"),
        (UserMessage("hi"), "Part 1 of the content is UserMessage"),
        (TextPart(3), "Part 1 of the content: its text is int, not a string"),  # type: ignore[arg-type]
        (TextPart(None), "its text is NoneType, not a string"),  # type: ignore[arg-type]
        (TextPart("ab\ud800"), "its text has a lone surrogate at character 2"),
        (ImagePart(), "Part 1 of the content, an image, has neither data nor url"),
        (ImagePart(url=""), "has neither data nor url"),
        (FilePart(None, "application/pdf"), "Part 1 of the content, a file, has neither data nor url"),
        (ImagePart(b"x", "image/png", "https://x"), "has both data and url"),
        (ImagePart(b"x", "image/png", ""), "has both data and url"),
        (ImagePart(url=3), "an image, has a url of type int. Give a string"),  # type: ignore[arg-type]
        (FilePart(url=b"https://x"), "a file, has a url of type bytes"),  # type: ignore[arg-type]
        (ImagePart(b"", "image/png"), "has empty data"),
        (ImagePart("aGk=", "image/png"), "has data of type str. Give the bytes"),  # type: ignore[arg-type]
        (ImagePart(bytearray(b"x"), "image/png"), "has data of type bytearray. Give the bytes"),
        (ImagePart(b"x"), "needs a media_type, like 'image/png'; it has None"),
        (FilePart(b"x", ""), "needs a media_type, like 'image/png'; it has ''"),
        (FilePart(b"x", "pdf"), "needs a media_type, like 'image/png'; it has 'pdf'"),
        (FilePart(b"x", 3), "needs a media_type, like 'image/png'; it has 3"),  # type: ignore[arg-type]
    ],
)
def test_T4_a_malformed_part_is_named_with_its_place(part: Any, words: str) -> None:
    with pytest.raises(InvalidContentError, match=words):
        check_content([TextPart("hi"), part], MODEL)


@pytest.mark.parametrize("malformed", [None, TextPart(3), ImagePart()])  # type: ignore[arg-type]
def test_T4_malformed_goes_before_empty(malformed: Any) -> None:
    with pytest.raises(InvalidContentError):
        check_content([TextPart(" "), malformed], MODEL)


@pytest.mark.parametrize("content", [7, b"raw", bytearray(b"raw"), {"role": "user"}, {TextPart("x")}, TextPart("x")])
def test_T4_what_is_no_list_is_named(content: Any) -> None:
    with pytest.raises(InvalidContentError, match=f"must be a string or a list .*, not {type(content).__name__}"):
        check_content(content, MODEL)


@pytest.mark.parametrize(("part", "kind"), [(IMAGE, "an image"), (LINK, "an image"), (PDF, "a file")])
def test_T3_what_the_model_cannot_take_is_refused_with_its_name(part: Any, kind: str) -> None:
    with pytest.raises(
        InvalidContentError, match=f"Part 0 of the content is {kind}, and the model test:blind takes none"
    ):
        check_content([part, TextPart("x")], TEXT_ONLY)


def test_T3_images_and_files_are_judged_apart() -> None:
    sees = replace(MODEL, capabilities=Capabilities(images=True, files=False))
    assert check_content([IMAGE], sees) == (IMAGE,)
    with pytest.raises(InvalidContentError, match="a file"):
        check_content([PDF], sees)


@pytest.mark.parametrize("content", ["a\ud800b", [TextPart("\udfff")]])
async def test_T4_text_that_cannot_be_encoded_never_reaches_the_history(content: Any) -> None:
    streams, history = Streams("x"), list[Message]()
    with pytest.raises(InvalidContentError, match="lone surrogate"):
        await run_agent_loop(content, history, options(streams))
    assert (history, streams.count) == ([], 0)


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"max_turns": 0}, "max_turns must be a positive whole number or None, not 0"),
        ({"max_turns": True}, "max_turns must be a positive whole number or None, not True"),
        ({"max_turns": 2.0}, "max_turns must be a positive whole number or None, not 2.0"),
        ({"max_parallel_tool_calls": None}, "max_parallel_tool_calls must be a positive whole number, not None"),
        ({"max_parallel_tool_calls": -1}, "max_parallel_tool_calls must be a positive whole number, not -1"),
        ({"max_tool_calls_per_step": 0}, "max_tool_calls_per_step must be a positive whole number or None, not 0"),
        ({"cancel_grace": -0.1}, "cancel_grace must be a number of seconds, 0 or more, not -0.1"),
        ({"cancel_grace": float("nan")}, "cancel_grace .*, not nan"),
        ({"cancel_grace": float("inf")}, "cancel_grace .*, not inf"),
        ({"cancel_grace": True}, "cancel_grace .*, not True"),
        ({"cancel_grace": "2"}, "cancel_grace .*, not '2'"),
        (
            {"tools": [len]},
            "tools must hold Tool objects; <built-in function len> is none. Decorate a function with @tool",
        ),
        ({"tools": [Tool("a"), Tool("b"), Tool("a")]}, "Two tools are named 'a'"),
        ({"tools": None}, "tools must be a list of Tool objects, not None"),
        ({"tools": "search"}, "tools must be a list of Tool objects, not 'search'"),
        ({"tools": Tool("a")}, "tools must be a list of Tool objects, not "),
        ({"model": "openai:x"}, r"model must say who it is \(a ModelInfo or a model\), not 'openai:x'"),
        ({"model": None}, "model must say who it is .*, not None"),
        ({"stream_options": {"temperature": 1}}, "stream_options must be StreamOptions, not dict"),
        ({"get_steering_messages": []}, r"get_steering_messages must be a function or None, not \[\]"),
        ({"get_follow_up_messages": "x"}, "get_follow_up_messages must be a function or None, not 'x'"),
        ({"prepare_request": 1}, "prepare_request must be a function or None, not 1"),
        ({"finish_turn": 1}, "finish_turn must be a function or None, not 1"),
        ({"clock": 1.0}, "clock must be a function or None, not 1.0"),
    ],
    ids=str,
)
def test_T6_options_that_cannot_work_are_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        check_options(replace(options(Streams("x")), **more))


def test_T6_all_problems_are_told_at_once() -> None:
    wrong: Any = {"stream": "openai", "max_turns": 0, "cancel_grace": -1, "tools": (None, Tool("a"), Tool("a"))}
    with pytest.raises(InvalidArgumentError) as caught:
        check_options(replace(options(Streams("x")), **wrong))
    for words in ("stream must be", "max_turns must be", "cancel_grace must be", "None is none", "Two tools"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"max_turns": 1, "max_parallel_tool_calls": 1, "max_tool_calls_per_step": 1, "cancel_grace": 0},
        {"max_turns": None, "max_tool_calls_per_step": None, "tools": (Tool("a"), Tool("b"))},
    ],
)
def test_options_that_can_work_pass(more: dict[str, Any]) -> None:
    check_options(replace(options(Streams("x")), **more))


# ---------------------------------------------------------------- history


def test_a_history_of_messages_passes() -> None:
    check_history([])
    check_history(
        [AssistantMessage(), ToolResultMessage("1", "t"), ApprovalMessage(()), UserMessage("x")], needs_user=True
    )


@pytest.mark.parametrize("history", [[], [AssistantMessage()], [ToolResultMessage("1", "t"), ApprovalMessage(())]])
def test_T13_going_on_needs_user_input(history: list[Message]) -> None:
    check_history(history)
    with pytest.raises(InvalidInputError, match="There is no new content, and the history has no user message"):
        check_history(history, needs_user=True)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "system", "content": "x"}, "Message 1 is a system message. .* give it as the agent's instructions"),
        ({"role": "developer", "content": "x"}, "Message 1 is a developer message"),
        ({"role": "user", "content": "x"}, "Message 1 is dict, not a message. .* load_messages"),
        ("hi", "Message 1 is str, not a message"),
        (None, "Message 1 is NoneType, not a message"),
        (TextPart("x"), "Message 1 is TextPart, not a message"),
    ],
)
def test_what_is_no_message_is_named_with_its_place(message: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        check_history([UserMessage("hi"), message])


@pytest.mark.parametrize(
    "history", [None, 7, "hi", b"hi", {"role": "user"}, UserMessage("hi"), iter([UserMessage("hi")])]
)
def test_what_is_no_list_of_messages_is_named(history: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"must be a list of messages, not {type(history).__name__}"):
        check_history(history)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (UserMessage({"type": "text"}), "Part 0 of message 1, of role user, is str; it must be one of TextPart, ImagePart"),  # type: ignore[arg-type]
        (UserMessage([TextPart("x"), {"type": "text"}]), "Part 1 of message 1, of role user, is dict"),  # type: ignore[list-item]
        (UserMessage([ToolCallPart("1", "t")]), "of role user, is ToolCallPart"),  # type: ignore[list-item]
        (AssistantMessage((ToolResultMessage("1", "t"),)), "of role assistant, is ToolResultMessage"),  # type: ignore[arg-type]
        (ToolResultMessage("1", "t", [ReasoningPart("x")]), "of role tool, is ReasoningPart"),  # type: ignore[list-item]
        (ApprovalMessage((TextPart("yes"),)), "of role approval, is TextPart; it must be one of ToolApprovalResponsePart"),  # type: ignore[arg-type]
    ],
    ids=lambda value: getattr(value, "role", ""),
)  # fmt: skip
async def test_a_message_of_other_parts_is_refused_with_its_place(message: Message, words: str) -> None:
    streams, history = Streams("x"), [UserMessage("hi"), message]
    with pytest.raises(InvalidContentError, match=words):
        await run_agent_loop("go on", history, options(streams))
    assert (len(history), streams.count) == (2, 0)


def test_a_system_message_object_is_told_where_it_belongs() -> None:
    class SystemMessage:
        role = "system"

    history: list[Any] = [SystemMessage()]
    with pytest.raises(InvalidInputError, match="The system prompt does not stand in the history"):
        check_history(history)
