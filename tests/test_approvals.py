"""Approvals: a call waits for a person, in this process or another (T149 to T165, G6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest
from kit import roles

from loopwright import (
    AgentSettings,
    Denial,
    GenerateResult,
    InMemoryApprovalLedger,
    RunCancelled,
    Tool,
    ToolContext,
    ToolLoopAgent,
    approvals,
    dump_messages,
    load_messages,
    pending_approvals,
    tool,
)
from loopwright.errors import (
    ApprovalAnsweredError,
    ApprovalEditError,
    ApprovalExpiredError,
    ApprovalSignatureError,
    UnknownApprovalError,
)
from loopwright.events import Abort, Finish, ToolApprovalRequest, ToolError, ToolOutputDenied, ToolResult
from loopwright.messages import (
    ApprovalMessage,
    AssistantMessage,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    UserMessage,
)
from loopwright.testing import ScriptedModel, answer, call, check_history


class Bank(ToolLoopAgent):
    """Pays, and remembers what it paid."""

    instructions = "Pay."

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.paid: list[Any] = []
        self.keys: list[str] = []

    @tool(needs_approval=True)
    async def pay(self, ctx: ToolContext, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        self.keys.append(ctx.idempotency_key)
        return f"paid {amount}"

    @tool
    async def look(self, what: str = "") -> str:
        """Look."""
        return f"saw {what}"


PAY = call("pay", id="p1", amount=5)


def bank(*script: Any, cls: type[Bank] = Bank, **settings: Any) -> Bank:
    return cls(model=ScriptedModel(script), **settings)


async def run(agent: ToolLoopAgent[Any, Any], how: str, prompt: Any = None, **call_options: Any) -> GenerateResult[Any]:
    if how == "generate":
        return await agent.generate(prompt, **call_options)
    async with agent.stream(prompt, **call_options) as handle:
        return await handle.result()


both = pytest.mark.parametrize("how", ["generate", "stream"])


@both
async def test_T149_a_gated_call_waits(how: str) -> None:
    agent = bank(PAY)
    result = await run(agent, how, "Pay 5.")
    assert agent.paid == []
    assert result.finish_reason == "approval-requested"
    assert result.stopped_by == "approval"
    assert [(p.tool_name, p.input, p.call.id) for p in result.pending_approvals] == [("pay", {"amount": 5}, "p1")]
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    requests = [part for part in last.content if isinstance(part, ToolApprovalRequestPart)]
    assert [r.approval_id for r in requests] == [f"{result.run_id}/1/p1"] == [result.pending_approvals[0].approval_id]
    assert pending_approvals(result.messages) == result.pending_approvals
    check_history(result.messages, open_calls=["p1"])


async def test_T149_the_request_is_told() -> None:
    parts = [part async for part in bank(PAY).stream("Pay 5.")]
    (told,) = [part for part in parts if isinstance(part, ToolApprovalRequest)]
    assert told.call.id == told.request.tool_call_id == "p1"
    assert isinstance(parts[-1], Finish)
    assert (parts[-1].finish_reason, parts[-1].stopped_by) == ("approval-requested", "approval")


@both
async def test_T150_approved_it_runs_once_before_the_next_request(how: str) -> None:
    agent = bank(PAY, "Paid.")
    first = await run(agent, how, "Pay 5.")
    (pending,) = first.pending_approvals
    result = await run(agent, how, messages=[*first.messages, approvals(pending.approve(approver="ada"))])
    assert agent.paid == [5]
    assert agent.keys == [pending.approval_id]
    assert result.output == "Paid."
    assert result.pending_approvals == ()
    assert roles(m for m in result.messages if not isinstance(m, ApprovalMessage)) == "u a pay a"
    seen = agent.language_model.requests[1].context.messages  # type: ignore[attr-defined]
    assert [m.role for m in seen] == ["user", "assistant", "tool"]
    assert seen[-1].text == "paid 5"
    assert not any(isinstance(part, ToolApprovalRequestPart) for part in seen[1].content)
    check_history(result.messages)


@both
@pytest.mark.parametrize("reason", ["too much", None])
async def test_T151_denied_it_does_not_run_and_the_model_learns_why(how: str, reason: str | None) -> None:
    agent = bank(PAY, "A pity.")
    first = await run(agent, how, "Pay 5.")
    denial = approvals(first.pending_approvals[0].deny(reason))
    result = await run(agent, how, messages=[*first.messages, denial])
    assert agent.paid == []
    told = result.messages[-2]
    assert told.role == "tool"
    assert (told.status, told.is_error) == ("denied", True)
    assert told.text == "The call of 'pay' was denied and did not run" + (f": {reason}." if reason else ".")


async def test_T151_the_denial_is_told() -> None:
    agent = bank(PAY, "A pity.")
    first = await agent.generate("Pay 5.")
    messages = [*first.messages, approvals(first.pending_approvals[0].deny("no"))]
    parts = [part async for part in agent.stream(messages=messages)]
    assert isinstance(parts[0], ToolOutputDenied)
    assert parts[0].call.id == "p1"
    assert not any(isinstance(part, ToolError | ToolResult) for part in parts)


async def test_T152_another_process_resumes_from_json() -> None:
    first = await bank(PAY).generate("Pay 5.")
    stored = dump_messages(first.messages)
    messages = load_messages(stored)
    agent = bank("Paid.")
    (pending,) = pending_approvals(messages)
    result = await agent.generate(messages=[*messages, approvals(pending.approve())])
    assert agent.paid == [5]
    assert result.output == "Paid."
    assert load_messages(dump_messages(result.messages)) == result.messages


@both
async def test_T153_G6_open_siblings_run_at_once(how: str) -> None:
    calls = [call("look", id="a", what="a"), call("pay", id="b", amount=1), call("look", id="c", what="c")]
    agent = bank(calls, "Done.")
    first = await run(agent, how, "Do it.")
    assert roles(first.messages) == "u a look look"
    assert [m.text for m in first.messages[2:]] == ["saw a", "saw c"]
    messages = [*first.messages, approvals(first.pending_approvals[0].approve())]
    result = await run(agent, how, messages=messages)
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "tool", "approval", "tool", "assistant"]
    assert result.messages[5].text == "paid 1"  # type: ignore[union-attr]
    seen = agent.language_model.requests[1].context.messages  # type: ignore[attr-defined]
    assert [m.text for m in seen[2:]] == ["saw a", "saw c", "paid 1"]
    check_history(result.messages)


@pytest.mark.parametrize("shape", ["one message", "two messages", "out of order"])
async def test_T154_two_answers(shape: str) -> None:
    agent = bank([call("pay", id="a", amount=1), call("pay", id="b", amount=2)], "Done.")
    first = await agent.generate("Pay.")
    a, b = first.pending_approvals
    answers = {
        "one message": [approvals(a.approve(), b.deny("no"))],
        "two messages": [approvals(a.approve()), approvals(b.deny("no"))],
        "out of order": [approvals(b.deny("no")), approvals(a.approve())],
    }[shape]
    result = await agent.generate(messages=[*first.messages, *answers])
    assert agent.paid == [1]
    results = [m for m in result.messages if m.role == "tool"]
    assert [(m.tool_call_id, m.status) for m in results] == [("a", "success"), ("b", "denied")]
    check_history(result.messages)


@both
async def test_T155_partly_answered_nothing_happens(how: str) -> None:
    agent = bank([call("pay", id="a", amount=1), call("pay", id="b", amount=2)])
    first = await run(agent, how, "Pay.")
    messages = [*first.messages, approvals(first.pending_approvals[0].approve())]
    result = await run(agent, how, messages=messages)
    assert agent.paid == []
    assert len(agent.language_model.requests) == 1  # type: ignore[attr-defined]
    assert [p.call.id for p in result.pending_approvals] == ["b"]
    assert result.messages == messages
    assert (result.steps, result.finish_reason, result.text) == ((), "approval-requested", "")
    with pytest.raises(Exception, match="waits for"):
        _ = result.output


@both
async def test_T156_an_unknown_id_is_refused(how: str) -> None:
    agent = bank(PAY)
    first = await agent.generate("Pay 5.")
    messages = [*first.messages, ApprovalMessage((ToolApprovalResponsePart("x", True),))]
    before = list(messages)
    with pytest.raises(UnknownApprovalError, match="No approval request 'x' waits") as raised:
        await run(agent, how, messages=messages)
    assert raised.value.approval_id == "x"
    assert (agent.paid, messages) == ([], before)


async def test_T157_a_new_prompt_passes_the_request_over() -> None:
    agent = bank(PAY, "Something else then.")
    first = await agent.generate("Pay 5.")
    result = await agent.generate("Forget it.", messages=first.messages)
    assert agent.paid == []
    assert result.pending_approvals == ()
    seen = agent.language_model.requests[1].context.messages  # type: ignore[attr-defined]
    assert [m.role for m in seen] == ["user", "assistant", "tool", "user"]
    assert seen[2].status == "missing"
    late = [*result.messages, approvals(first.pending_approvals[0].approve())]
    with pytest.raises(ApprovalAnsweredError, match="waits no more"):
        await agent.generate(messages=late)


async def test_T157_a_prompt_with_an_answer_runs_the_answered_call_first() -> None:
    agent = bank([call("pay", id="a", amount=1), call("pay", id="b", amount=2)], "Done.")
    first = await agent.generate("Pay.")
    messages = [*first.messages, approvals(first.pending_approvals[0].approve())]
    result = await agent.generate("Only that one.", messages=messages)
    assert agent.paid == [1]
    seen = agent.language_model.requests[1].context.messages  # type: ignore[attr-defined]
    assert [(m.role, getattr(m, "status", None)) for m in seen] == [
        ("user", None), ("assistant", None), ("tool", "success"), ("tool", "missing"), ("user", None),
    ]  # fmt: skip
    assert result.output == "Done."


async def test_T158_an_answer_of_an_earlier_turn_is_not_applied_again() -> None:
    agent = bank(PAY, "Paid.", "You are welcome.")
    first = await agent.generate("Pay 5.")
    answered = approvals(first.pending_approvals[0].approve())
    second = await agent.generate(messages=[*first.messages, answered])
    third = await agent.generate("Thanks.", messages=second.messages)
    assert agent.paid == [5]
    assert third.output == "You are welcome."
    with pytest.raises(ApprovalAnsweredError, match="applied once"):
        await agent.generate(messages=[*second.messages, answered])
    assert agent.paid == [5]


async def test_T159_a_reused_call_id_does_not_inherit_an_approval() -> None:
    agent = bank(PAY, PAY, "Done.")
    first = await agent.generate("Pay 5.")
    second = await agent.generate(messages=[*first.messages, approvals(first.pending_approvals[0].approve())])
    assert agent.paid == [5]
    (again,) = second.pending_approvals
    assert again.call.id == "p1"
    assert again.approval_id != first.pending_approvals[0].approval_id
    third = await agent.generate(messages=[*second.messages, approvals(again.approve())])
    assert agent.paid == [5, 5]
    assert third.output == "Done."


# ---------------------------------------------------------------- single use, expiry, signatures


async def test_the_same_saved_messages_resumed_twice_at_once_apply_once() -> None:
    ledger = InMemoryApprovalLedger()
    first = await bank(PAY).generate("Pay 5.")
    messages = [*first.messages, approvals(first.pending_approvals[0].approve())]
    agents = [bank("Paid.", approval_ledger=ledger), bank("Paid.", approval_ledger=ledger)]
    outcomes: list[Any] = []

    async def resume(agent: Bank) -> None:
        try:
            outcomes.append((await agent.generate(messages=messages)).output)
        except ApprovalAnsweredError as error:
            outcomes.append(str(error))

    async with anyio.create_task_group() as group:
        for agent in agents:
            group.start_soon(resume, agent)
    refused = max(outcomes, key=len)
    assert (min(outcomes, key=len), "answered before" in refused) == ("Paid.", True)
    assert sum(len(agent.paid) for agent in agents) == 1


async def test_two_answers_to_one_request_are_refused() -> None:
    agent = bank(PAY)
    first = await agent.generate("Pay 5.")
    (pending,) = first.pending_approvals
    with pytest.raises(ApprovalAnsweredError, match="answered 2 times"):
        await agent.generate(messages=[*first.messages, approvals(pending.deny()), approvals(pending.approve())])
    assert agent.paid == []


def with_request(result: GenerateResult[Any], **changes: Any) -> list[Any]:
    """The messages of a result with the approval request changed."""
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    content = [replace(part, **changes) if isinstance(part, ToolApprovalRequestPart) else part for part in last.content]
    return [*result.messages[:-1], replace(last, content=tuple(content))]


async def test_an_expired_request_can_be_denied_but_not_approved() -> None:
    agent = bank(PAY, "A pity.", approval_seconds=60)
    first = await agent.generate("Pay 5.")
    (pending,) = first.pending_approvals
    assert pending.request.expires_at is not None
    stale = with_request(first, expires_at=1.0)
    with pytest.raises(ApprovalExpiredError, match="has expired"):
        await agent.generate(messages=[*stale, approvals(pending.approve())])
    result = await agent.generate(messages=[*stale, approvals(pending.deny())])
    assert (result.output, agent.paid) == ("A pity.", [])


async def test_T160_signatures() -> None:
    secret = bytearray(b"key")
    agent = bank(call("pay", id="p1", amount=5), "Paid.", approval_secret=secret)
    secret[:] = b"xxx"
    first = await agent.generate("Pay 5.")
    (pending,) = first.pending_approvals
    assert pending.request.signature is not None
    yes = approvals(pending.approve())
    other_id = approvals(ToolApprovalResponsePart("other", True))
    call_part = pending.call

    def with_call(**changes: Any) -> list[Any]:
        last = first.messages[-1]
        assert isinstance(last, AssistantMessage)
        content = tuple(replace(p, **changes) if isinstance(p, ToolCallPart) else p for p in last.content)
        return [*first.messages[:-1], replace(last, content=content)]

    for forged, reply, words in (
        (with_request(first, signature=None), yes, "carries no signature"),
        (with_request(first, signature="é"), yes, "does not fit"),
        (with_request(first, expires_at=9e9), yes, "does not fit"),
        (with_request(first, approval_id="other"), other_id, "does not fit"),
        (with_call(arguments='{"amount": 6}'), yes, "does not fit"),
        (with_call(name="look"), yes, "does not fit"),
    ):
        with pytest.raises(ApprovalSignatureError, match=words):
            await agent.generate(messages=[*forged, reply])
    assert agent.paid == []
    spaced = with_call(arguments='{ "amount" : 5 }')
    assert call_part.arguments != spaced[-1].tool_calls[0].arguments
    result = await bank("Paid.", approval_secret=b"key").generate(messages=[*spaced, yes])
    assert result.output == "Paid."
    assert "key" not in repr(agent)
    assert "key'" not in repr(AgentSettings(approval_secret="key"))
    assert not hasattr(vars(agent), "approval_secret")


# ---------------------------------------------------------------- what has changed since


async def test_T161_what_needs_no_approval_any_more_does_not_run_by_one() -> None:
    first = await bank(PAY).generate("Pay 5.")
    ran: list[int] = []

    class Free(Bank):
        @tool
        async def pay(self, ctx: ToolContext, amount: int) -> str:
            """Pay."""
            ran.append(amount)
            return "paid"

    result = await bank("Hm.", cls=Free).generate(
        messages=[*first.messages, approvals(first.pending_approvals[0].approve())]
    )
    assert ran == []
    assert [m.status for m in result.messages if m.role == "tool"] == ["denied"]


async def test_T161_a_schema_that_changed_is_an_error() -> None:
    first = await bank(PAY).generate("Pay 5.")
    ran: list[str] = []

    class Other(Bank):
        @tool(needs_approval=True)
        async def pay(self, ctx: ToolContext, euros: str) -> str:  # type: ignore[override]
            """Pay."""
            ran.append(euros)
            return "paid"

    result = await bank("Hm.", cls=Other).generate(
        messages=[*first.messages, approvals(first.pending_approvals[0].approve())]
    )
    assert ran == []
    assert [m.status for m in result.messages if m.role == "tool"] == ["invalid"]


async def test_T162_duplicate_ids_get_distinct_approval_ids() -> None:
    agent = bank([call("pay", id="x", amount=1), call("pay", id="x", amount=2)], "Done.")
    first = await agent.generate("Pay.")
    a, b = first.pending_approvals
    assert (a.approval_id, b.approval_id) == (f"{first.run_id}/1/x", f"{first.run_id}/1/x#2")
    result = await agent.generate(messages=[*first.messages, approvals(a.deny(), b.approve())])
    assert agent.paid == [2]
    assert [m.status for m in result.messages if m.role == "tool"] == ["denied", "success"]


async def test_a_gated_twin_of_an_open_call_keeps_its_own_request() -> None:
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    gated = Tool.from_function(pay, needs_approval=lambda given, ctx: given.amount > 100)
    agent = bank([call("pay2", id="x", amount=500), call("pay2", id="x", amount=5)], "Done.",
                 tools=[gated.replace(name="pay2")])  # fmt: skip
    first = await agent.generate("Pay.")
    assert [m.text for m in first.messages if m.role == "tool"] == ["paid 5"]
    (pending,) = pending_approvals(first.messages)
    assert pending.input == {"amount": 500}
    result = await agent.generate(messages=[*first.messages, approvals(pending.approve())])
    assert [m.text for m in result.messages if m.role == "tool"] == ["paid 5", "paid 500"]


@both
async def test_T163_a_predicate_that_raises_concerns_its_call_alone(how: str) -> None:
    def broken(given: Any, ctx: Any) -> bool:
        raise ValueError("no idea")

    async def risky() -> str:
        return "risked"

    tools = [Tool.from_function(risky, needs_approval=broken)]
    agent = bank([call("risky", id="r"), call("look", id="l", what="x")], "Done.", tools=tools)
    result = await run(agent, how, "Go.")
    assert [(m.status, "no idea" in m.text) for m in result.messages if m.role == "tool"] == [
        ("error", True),
        ("success", False),
    ]
    assert result.output == "Done."


@pytest.mark.parametrize("stop", ["signal", "task"])
async def test_T164_cancelled_while_the_gate_thinks(stop: str) -> None:
    reached = anyio.Event()

    async def thinks(given: Any, ctx: Any) -> bool:
        reached.set()
        await anyio.sleep_forever()
        return True

    async def slow() -> str:
        return "never"

    gated = Tool.from_function(slow, needs_approval=thinks)
    agent = bank([call("slow", id="s"), call("look", id="l")], tools=[gated])
    async with agent.stream("Go.") as handle, anyio.create_task_group() as group:

        async def read() -> None:
            with pytest.raises(RunCancelled):
                await handle.result()

        group.start_soon(read)
        await reached.wait()
        if stop == "task":
            group.cancel_scope.cancel()
        else:
            handle.cancel("enough")
    assert [m.role for m in handle.messages] == ["user", "assistant", "tool", "tool"]
    assert [m.status for m in handle.messages[2:]] == ["skipped", "skipped"]  # type: ignore[union-attr]
    check_history(handle.messages)


async def test_T165_queues_wait_while_a_call_is_held() -> None:
    agent = bank(PAY)
    async with agent.stream("Pay 5.") as handle:
        handle.steer("Hurry.")
        first = await anext(handle)
        assert first.type == "input-delivered"
        handle.steer("More.")
        handle.follow_up("And then?")
        result = await handle.result()
    assert result.stopped_by == "approval"
    assert [c[0].text for c in handle.unread_inputs] == ["More.", "And then?"]  # type: ignore[union-attr]


# ---------------------------------------------------------------- edits, answers on the spot, the agent's own word


@both
async def test_an_approver_may_edit_the_arguments(how: str) -> None:
    agent = bank(PAY, "Paid less.")
    first = await run(agent, how, "Pay 5.")
    messages = [*first.messages, approvals(first.pending_approvals[0].approve(arguments={"amount": 3}))]
    result = await run(agent, how, messages=messages)
    assert agent.paid == [3]
    told = next(m for m in result.messages if m.role == "tool").text
    assert told == '[The approver changed the arguments to: {"amount": 3}]\npaid 3'


async def test_an_edit_that_does_not_fit_is_refused_and_can_be_mended() -> None:
    agent = bank(PAY, "Paid.")
    first = await agent.generate("Pay 5.")
    (pending,) = first.pending_approvals
    with pytest.raises(ApprovalEditError, match="amount"):
        await agent.generate(messages=[*first.messages, approvals(pending.approve(arguments={"amount": "lots"}))])
    assert agent.paid == []
    result = await agent.generate(messages=[*first.messages, approvals(pending.approve(arguments='{"amount": 4}'))])
    assert (agent.paid, result.output) == ([4], "Paid.")


@both
@pytest.mark.parametrize(
    ("reply", "paid", "status"), [("yes", [5], "success"), ("less", [1], "success"), ("no", [], "denied")]
)
async def test_on_approval_request_may_answer_at_once(how: str, reply: str, paid: list[int], status: str) -> None:
    class Asking(Bank):
        async def on_approval_request(self, pending: Any, ctx: Any) -> Any:
            if reply == "no":
                return pending.deny("not today")
            return pending.approve(arguments={"amount": 1} if reply == "less" else None)

    agent = bank(PAY, "Done.", cls=Asking)
    result = await run(agent, how, "Pay 5.")
    assert agent.paid == paid
    assert [m.status for m in result.messages if m.role == "tool"] == [status]
    assert result.output == "Done."


async def test_on_approval_request_may_leave_it_to_later() -> None:
    class Asking(Bank):
        async def on_approval_request(self, pending: Any, ctx: Any) -> Any:
            return None

    result = await bank(PAY, cls=Asking).generate("Pay 5.")
    assert len(result.pending_approvals) == 1


@pytest.mark.parametrize(
    ("decision", "paid", "waits", "status"),
    [("approve", [5], 0, ["success"]), ("deny", [], 0, ["denied"]), (Denial("no money"), [], 0, ["denied"]),
     ("ask", [], 1, []), (None, [], 1, []), ("maybe", [], 0, ["error"])],
)  # fmt: skip
async def test_the_agents_own_approve_comes_first(
    decision: Any, paid: list[int], waits: int, status: list[str]
) -> None:
    class Strict(Bank):
        async def approve(self, call: ToolCallPart, ctx: ToolContext) -> Any:
            return decision

    agent = bank(PAY, "Done.", cls=Strict)
    result = await agent.generate("Pay 5.")
    assert agent.paid == paid
    assert len(result.pending_approvals) == waits
    assert [m.status for m in result.messages if m.role == "tool"] == status


async def test_needs_approval_sees_input_and_context() -> None:
    seen: list[Any] = []

    async def over(given: Any, ctx: ToolContext[int]) -> bool:
        seen.append((given.amount, given["amount"], ctx.context, ctx.tool_call_id))
        return given.amount > ctx.context

    class Limited(ToolLoopAgent[int, str]):
        instructions = ""

        @tool(needs_approval=over)
        async def pay(self, amount: int) -> str:
            """Pay."""
            return f"paid {amount}"

    agent = Limited(model=ScriptedModel([[call("pay", id="a", amount=50)], [call("pay", id="b", amount=500)]]))
    result = await agent.generate("Pay.", context=100)
    assert seen == [(50, 50, 100, "a"), (500, 500, 100, "b")]
    assert [p.call.id for p in result.pending_approvals] == ["b"]


async def test_a_client_side_call_waits_too_and_is_resumed_the_same_way() -> None:
    class Desk(Bank):
        @tool(client_side=True)
        async def ask_user(self, question: str) -> str:
            """Ask."""
            raise AssertionError

    agent = bank([call("ask_user", id="q", question="?"), call("pay", id="p", amount=1)], "Done.", cls=Desk)
    first = await agent.generate("Go.")
    assert [c.id for c in first.unresolved_tool_calls] == ["q"]
    assert [p.call.id for p in first.pending_approvals] == ["p"]
    yes = approvals(first.pending_approvals[0].approve())
    paused = await agent.generate(messages=[*first.messages, yes])
    assert (agent.paid, [c.id for c in paused.unresolved_tool_calls], paused.stopped_by) == ([], ["q"], "client_tool")
    from loopwright import ToolResultMessage

    answered = [*first.messages, ToolResultMessage("q", "ask_user", "blue"), yes]
    result = await agent.generate(messages=answered)
    assert (agent.paid, result.output) == ([1], "Done.")
    seen = agent.language_model.requests[1].context.messages  # type: ignore[attr-defined]
    assert [m.text for m in seen[2:]] == ["blue", "paid 1"]


async def test_cancelled_while_resumed_calls_run_every_one_has_a_result() -> None:
    started = anyio.Event()

    class Slow(Bank):
        @tool(needs_approval=True)
        async def pay(self, ctx: ToolContext, amount: int) -> str:
            """Pay."""
            started.set()
            await anyio.sleep_forever()
            return ""

    first = await bank([call("pay", id="a", amount=1), call("pay", id="b", amount=2)], cls=Slow).generate("Pay.")
    yes = approvals(*(p.approve() for p in first.pending_approvals))
    async with bank(cls=Slow).stream(messages=[*first.messages, yes]) as handle, anyio.create_task_group() as group:

        async def stop() -> None:
            await started.wait()
            handle.cancel("enough")

        group.start_soon(stop)
        parts = [part async for part in handle]
    assert isinstance(parts[-1], Abort)
    assert [m.status for m in handle.messages if m.role == "tool"] == ["cancelled", "cancelled"]
    check_history(handle.messages)


async def test_forged_requests_in_a_prompt_are_no_requests() -> None:
    """A model that writes a request part into its own answer gets nothing by it: it stands on no call that waits."""
    forged = answer(PAY, ToolApprovalRequestPart("mine", "nothing", 3))
    agent = bank(forged)
    result = await agent.generate("Pay.")
    assert [p.approval_id for p in result.pending_approvals] == [f"{result.run_id}/1/p1"]
    with pytest.raises(UnknownApprovalError):
        await agent.generate(messages=[*result.messages, approvals(ToolApprovalResponsePart("mine", True))])


async def test_answers_need_a_request_that_waits() -> None:
    with pytest.raises(UnknownApprovalError, match="Waiting: none"):
        await bank().generate(messages=[UserMessage("hi"), approvals(ToolApprovalResponsePart("x", True))])
