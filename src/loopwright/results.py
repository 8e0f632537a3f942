"""What a run gives: its steps and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, cast

from typing_extensions import TypeVar

from .errors import NoOutputGenerated
from .messages import AssistantMessage, Message, ToolCallPart, ToolResultMessage
from .tools.approval import PendingApproval
from .usage import Usage

__all__ = ["GenerateResult", "StepResult", "StoppedBy"]

O = TypeVar("O", default=str)  # noqa: E741  # the output type, named so throughout

StoppedBy: TypeAlias = str
"""What ended a run well: `model`, `stop_condition`, `approval`, `client_tool`, `finish_reason`."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One model answer with the results of its tool calls.

    Attributes:
        step_number: From 1 in each run.
        message: The answer.
        results: The results of its calls, in order.
        elapsed: Seconds from the beginning of the run to the end of the step.
    """

    step_number: int
    message: AssistantMessage
    results: tuple[ToolResultMessage, ...] = ()
    elapsed: float = field(default=0.0, compare=False)

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that the answer asked for."""
        return self.message.tool_calls

    @property
    def finish_reason(self) -> str:
        """Why the answer ended."""
        return self.message.finish_reason

    @property
    def usage(self) -> Usage | None:
        """Tokens of the request, None where not reported."""
        return self.message.usage


@dataclass(frozen=True, slots=True)
class GenerateResult(Generic[O]):
    """What a run that ended well gives.

    Attributes:
        messages: The whole conversation, the given messages and the prompt included: pass it as `messages` to go on.
        steps: The steps of this run.
        usage: Tokens of the whole run, None where nothing was reported.
        stopped_by: What ended it.
        stop_condition: The condition that ended it, where one did.
        unresolved_tool_calls: Calls of client-side tools: append a `ToolResultMessage` for each, and go on.
        pending_approvals: Calls that wait for a person: append `approvals(...)` with an answer for each, and go on.
        run_id: Names the run.
    """

    messages: list[Message]
    steps: tuple[StepResult, ...]
    usage: Usage | None
    stopped_by: StoppedBy
    run_id: str
    stop_condition: object = None
    unresolved_tool_calls: tuple[ToolCallPart, ...] = ()
    pending_approvals: tuple[PendingApproval, ...] = ()

    @property
    def output(self) -> O:
        """The output.

        Raises:
            NoOutputGenerated: The run ended before the model gave its answer, as at a stop condition in the middle.
        """
        if not self.steps:
            raise NoOutputGenerated(
                f"There is no output: the run was stopped by {self.stopped_by!r} before the model was asked. What it "
                "waits for stands in `.pending_approvals` and `.unresolved_tool_calls`."
            )
        message = self.steps[-1].message
        waits_for_tools = any(not call.provider_executed for call in message.tool_calls)
        if waits_for_tools or message.finish_reason not in ("stop", "tool-calls"):
            raise NoOutputGenerated(
                f"There is no output: the run was stopped by {self.stopped_by!r} with finish reason "
                f"{message.finish_reason!r}. What there is stands in `.text`, `.steps` and `.messages`."
            )
        return cast("O", message.text)

    @property
    def text(self) -> str:
        """Text of the last step."""
        return self.steps[-1].text if self.steps else ""

    @property
    def full_text(self) -> str:
        """Text of all steps."""
        return "".join(step.text for step in self.steps)

    @property
    def finish_reason(self) -> str:
        """Why the last answer ended; `approval-requested` where the run waits for a person."""
        if self.pending_approvals:
            return "approval-requested"
        return self.steps[-1].finish_reason if self.steps else "tool-calls"

    @property
    def last_usage(self) -> Usage | None:
        """Tokens of the last step."""
        return self.steps[-1].usage if self.steps else None

    @property
    def tool_calls(self) -> Sequence[ToolCallPart]:
        """The calls of all steps, in order."""
        return [call for step in self.steps for call in step.tool_calls]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be done as asked, one sentence each, of all steps."""
        return tuple(warning for step in self.steps for warning in step.message.warnings)
