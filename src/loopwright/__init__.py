"""Loopwright: the framework that people subclass to put agents into real programs.

    class Greeter(ToolLoopAgent):
        model = "local:"
        instructions = "You greet people by name."

        @tool
        def look_up_name(self, user_id: int) -> str:
            \"\"\"Find a user's name.\"\"\"
            return {1: "Ada"}[user_id]

    result = Greeter().generate_sync("Greet user 1.")

Errors are drawn as a tree in `loopwright.errors`; the loop beneath the agents is `loopwright.loop`, the testing kit
`loopwright.testing`.
"""

from __future__ import annotations

from .actions import Approve, Cancel, Deny, FollowUp, Reset, Steer, Submit
from .agent import ToolLoopAgent
from .control import RunControl
from .engine import EngineState
from .errors import (
    AbortRun,
    InvalidArgumentError,
    InvalidInputError,
    LoopwrightError,
    MaxToolCallsPerStepExceeded,
    MaxTurnsReached,
    ModelError,
    NoOutputGenerated,
    RunCancelled,
    RunError,
    ToolRetry,
    UnsupportedStopReason,
)
from .loop import LoopOptions, MessageQueue, run_agent_loop
from .messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from .models import register_scheme, register_vendor, resolve_model
from .models.base import Capabilities, LanguageModel, ModelInfo, ModelRequest, ModelSettings, ResponseSchema
from .models.http import Timeouts
from .models.retry import RetryingModel, RetryPolicy
from .models.vendors import OpenAICompatible, Vendor
from .planning import FailedCall, RetryCall
from .results import GenerateResult, StepResult
from .run import Run
from .serialization import dump_messages, load_messages
from .settings import AgentSettings, CallContext, CallSettings, StepContext, StepSettings
from .signals import AbortSignal
from .stopping import (
    AllOf,
    AnyOf,
    CostBudget,
    HasToolCall,
    Never,
    RepeatedToolCall,
    StepCountIs,
    TimeBudget,
    TokenBudget,
)
from .telemetry import TelemetrySettings, register_integration
from .tools import Tool, ToolContext, ToolOutput, tool
from .tools.answers import pending_approvals
from .tools.approval import ApprovalLedger, Denial, InMemoryApprovalLedger, PendingApproval, approvals
from .tools.policy import ToolExecutionPolicy
from .usage import Usage

__version__ = "0.1.0"

__all__ = [
    "AbortRun",
    "AbortSignal",
    "AgentSettings",
    "AllOf",
    "AnyOf",
    "ApprovalLedger",
    "Approve",
    "AssistantMessage",
    "CallContext",
    "CallSettings",
    "Cancel",
    "Capabilities",
    "CostBudget",
    "Denial",
    "Deny",
    "EngineState",
    "FailedCall",
    "FilePart",
    "FollowUp",
    "GenerateResult",
    "HasToolCall",
    "ImagePart",
    "InMemoryApprovalLedger",
    "InvalidArgumentError",
    "InvalidInputError",
    "LanguageModel",
    "LoopOptions",
    "LoopwrightError",
    "MaxToolCallsPerStepExceeded",
    "MaxTurnsReached",
    "Message",
    "MessageQueue",
    "ModelError",
    "ModelInfo",
    "ModelRequest",
    "ModelSettings",
    "Never",
    "NoOutputGenerated",
    "OpenAICompatible",
    "PendingApproval",
    "ReasoningPart",
    "RepeatedToolCall",
    "Reset",
    "ResponseSchema",
    "RetryCall",
    "RetryPolicy",
    "RetryingModel",
    "Run",
    "RunCancelled",
    "RunControl",
    "RunError",
    "SourcePart",
    "Steer",
    "StepContext",
    "StepCountIs",
    "StepResult",
    "StepSettings",
    "Submit",
    "TelemetrySettings",
    "TextPart",
    "TimeBudget",
    "Timeouts",
    "TokenBudget",
    "Tool",
    "ToolCallPart",
    "ToolContext",
    "ToolExecutionPolicy",
    "ToolLoopAgent",
    "ToolOutput",
    "ToolResultMessage",
    "ToolRetry",
    "UnsupportedStopReason",
    "Usage",
    "UserMessage",
    "Vendor",
    "__version__",
    "approvals",
    "dump_messages",
    "load_messages",
    "pending_approvals",
    "register_integration",
    "register_scheme",
    "register_vendor",
    "resolve_model",
    "run_agent_loop",
    "tool",
]
