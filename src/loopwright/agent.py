"""The face: subclass `ToolLoopAgent`, one class for each agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, get_args, get_origin, overload

import anyio
from anyio.lowlevel import current_token
from typing_extensions import TypeVar, Unpack

from .actions import Action
from .assembly import begin_run
from .defaults import RunDefaults, conditions_of, model_of, secret_of, tools_of
from .dispatching import Engine
from .driving import RunDriver
from .engine import EngineState
from .errors import InvalidArgumentError
from .hooks import AgentHooks
from .lifecycle import AgentEvent
from .loop.options import Content
from .messages import Message
from .models.base import LanguageModel, ModelSettings
from .models.retry import RetryPolicy
from .results import GenerateResult
from .run import EventsHandle, EventsRun, Run, StreamHandle
from .settings import (
    NOT_GIVEN,
    SETTING_NAMES,
    AgentSettings,
    AgentTool,
    CallOptions,
    NotGiven,
    resolve,
)
from .stopping import StepCountIs, StopCondition
from .telemetry.integration import TelemetrySettings
from .tools.approval import ApprovalLedger, InMemoryApprovalLedger
from .tools.base import Tool
from .tools.decorator import collect_tools
from .tools.policy import ToolExecutionPolicy

__all__ = ["ToolLoopAgent"]

C = TypeVar("C", default=None)
O = TypeVar("O", default=str)  # noqa: E741  # the output type, named so throughout

_DEFAULTS: dict[str, Any] = {
    "id": "agent",
    "version": None,
    "stop_when": StepCountIs(20),
    "max_turns": None,
    "model_settings": ModelSettings(),
    "tool_policy": ToolExecutionPolicy(),
    "max_invalid_calls": 3,
    "max_retries": 2,
    "retry_policy": RetryPolicy(),
    "approval_secret": None,
    "approval_seconds": None,
    "telemetry": TelemetrySettings(),
}
_POLICY_SHORTHANDS = ("max_parallel_tool_calls", "max_tool_calls_per_step", "cancel_grace")


class ToolLoopAgent(AgentHooks[C, O], Generic[C, O]):
    """Base of all agents: runs the model and its tools until the model is done.

    Subclass it; one class is one agent, one instance serves many runs at once. `C` is the type of the run's context
    object (None where there is none), `O` the output type. Tools are decorated methods, inherited and overridden like
    any method, and whatever `tools` lists.

    Hooks are methods: override what you need of those that `AgentHooks` has.

    Each setting may stand in four places; the first that gives it wins: an argument of the call, an argument of the
    constructor, `settings=AgentSettings(...)`, an attribute of the class. `model`, `instructions` and `tools` must be
    given in one of them (decorated methods count as tools).
    """

    id: str
    version: str | None
    model: LanguageModel | str
    instructions: str
    tools: Sequence[AgentTool]
    stop_when: StopCondition | Sequence[StopCondition]
    max_turns: int | None
    model_settings: ModelSettings
    tool_policy: ToolExecutionPolicy
    max_parallel_tool_calls: int
    max_tool_calls_per_step: int | None
    cancel_grace: float
    max_invalid_calls: int | None
    max_retries: int
    retry_policy: RetryPolicy
    approval_secret: bytes | str | None
    approval_seconds: float | None
    approval_ledger: ApprovalLedger
    telemetry: TelemetrySettings

    __output_type__: ClassVar[Any] = str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in getattr(cls, "__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, ToolLoopAgent):
                arguments = get_args(base)
                if len(arguments) > 1:
                    cls.__output_type__ = arguments[1]

    def __init__(  # noqa: PLR0913  # one argument for each setting
        self,
        *,
        settings: AgentSettings | None = None,
        id: str | NotGiven = NOT_GIVEN,
        version: str | NotGiven | None = NOT_GIVEN,
        model: LanguageModel | str | NotGiven = NOT_GIVEN,
        instructions: str | NotGiven = NOT_GIVEN,
        tools: Sequence[AgentTool] | NotGiven = NOT_GIVEN,
        stop_when: StopCondition | Sequence[StopCondition] | NotGiven = NOT_GIVEN,
        max_turns: int | NotGiven | None = NOT_GIVEN,
        model_settings: ModelSettings | NotGiven = NOT_GIVEN,
        tool_policy: ToolExecutionPolicy | NotGiven = NOT_GIVEN,
        max_parallel_tool_calls: int | NotGiven = NOT_GIVEN,
        max_tool_calls_per_step: int | NotGiven | None = NOT_GIVEN,
        cancel_grace: float | NotGiven = NOT_GIVEN,
        max_invalid_calls: int | NotGiven | None = NOT_GIVEN,
        max_retries: int | NotGiven = NOT_GIVEN,
        retry_policy: RetryPolicy | NotGiven = NOT_GIVEN,
        approval_secret: bytes | str | NotGiven | None = NOT_GIVEN,
        approval_seconds: float | NotGiven | None = NOT_GIVEN,
        approval_ledger: ApprovalLedger | NotGiven = NOT_GIVEN,
        telemetry: TelemetrySettings | NotGiven = NOT_GIVEN,
    ) -> None:
        """Settle the settings; see `AgentSettings` for what each means.

        Raises:
            InvalidArgumentError: Something required is missing, or cannot work. All of it is named at once.
            TypeError: `ToolLoopAgent` itself was called instead of a subclass.
            ModelError: A model string does not resolve.
        """
        arguments = {name: value for name, value in locals().items() if name in SETTING_NAMES}
        in_settings = {} if settings is None else {name: getattr(settings, name) for name in SETTING_NAMES}
        on_class = {name: getattr(type(self), name) for name in SETTING_NAMES if hasattr(type(self), name)}
        given = {name: resolve(name, (arguments, in_settings, on_class, _DEFAULTS)) for name in SETTING_NAMES}
        self._check_given(given)
        given_tools = () if given["tools"] is NOT_GIVEN else given["tools"]
        ledger = given["approval_ledger"]
        self._defaults = RunDefaults(
            id=given["id"],
            version=given["version"],
            model=model_of(given["model"]),
            instructions=given["instructions"],
            tools=(*collect_tools(self), *tools_of(given_tools)),
            stop_when=conditions_of(given["stop_when"]),
            max_turns=given["max_turns"],
            model_settings=given["model_settings"],
            tool_policy=self._policy_of(given),
            max_invalid_calls=given["max_invalid_calls"],
            max_retries=given["max_retries"],
            retry_policy=given["retry_policy"],
            approval_secret=secret_of(given["approval_secret"]),
            approval_seconds=given["approval_seconds"],
            approval_ledger=InMemoryApprovalLedger() if ledger is NOT_GIVEN else ledger,
            telemetry=given["telemetry"],
        )
        self._defaults.check(type(self).__name__)
        self._engine = Engine(self._begin_for_engine)
        for name in SETTING_NAMES:
            if name != "approval_secret":  # it stays where nothing prints it
                setattr(self, name, getattr(self._defaults, name, given[name]))

    def _policy_of(self, given: dict[str, Any]) -> ToolExecutionPolicy:
        policy: object = given["tool_policy"]
        name = type(self).__name__
        if not isinstance(policy, ToolExecutionPolicy):
            raise InvalidArgumentError(f"{name}.tool_policy must be ToolExecutionPolicy(...), not {policy!r}.")
        changes = {short: given[short] for short in _POLICY_SHORTHANDS if given[short] is not NOT_GIVEN}
        try:
            return replace(policy, **changes)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{name}: {error}") from None

    def _check_given(self, given: dict[str, Any]) -> None:
        has_tools = given["tools"] is not NOT_GIVEN or bool(collect_tools(self))
        missing = [name for name in ("model", "instructions") if given[name] is NOT_GIVEN]
        if not has_tools:
            missing.append("tools")
        name = type(self).__name__
        if missing:
            raise InvalidArgumentError(
                f"{name} lacks {_listed(missing)}. Give each as an attribute of the class, an argument of the "
                "constructor, or in settings=AgentSettings(...); tools may also be methods decorated with @tool, "
                "tools=[] says that there are none, and instructions='' that there is no system prompt."
            )
        if type(self) is ToolLoopAgent:
            raise TypeError(
                "ToolLoopAgent is the base of agents and is not one itself. Write a subclass: "
                "class MyAgent(ToolLoopAgent): ..."
            )
        if self.__output_type__ is not str and not isinstance(self.__output_type__, TypeVar):
            raise InvalidArgumentError(
                f"{name} declares the output type {self.__output_type__!r}; the output of an agent is text. "
                f"Declare class {name}(ToolLoopAgent[C, str]), and read the text with a parser of your own."
            )
        if not isinstance(given["instructions"], str):
            raise InvalidArgumentError(f"{name}.instructions must be a string, not {given['instructions']!r}.")

    # ------------------------------------------------------------ what it is

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        """The tools that the agent carries: decorated methods first, then those that `tools` lists."""
        return self._defaults.tools

    @property
    def language_model(self) -> LanguageModel:
        """The model that `model` stands for."""
        return self._defaults.model

    def __repr__(self) -> str:
        tools = ", ".join(tool.name for tool in self._defaults.tools) or "none"
        return (
            f"<{type(self).__name__} model={self._defaults.model.provider}:{self._defaults.model.name} tools={tools}>"
        )

    # ------------------------------------------------------------ running

    @overload
    async def generate(
        self: ToolLoopAgent[None, O],
        prompt: Content | None = None,
        *,
        context: None = None,
        **call: Unpack[CallOptions],
    ) -> GenerateResult[O]: ...

    @overload
    async def generate(
        self, prompt: Content | None = None, *, context: C, **call: Unpack[CallOptions]
    ) -> GenerateResult[O]: ...

    async def generate(
        self, prompt: Content | None = None, *, context: Any = None, **call: Unpack[CallOptions]
    ) -> GenerateResult[Any]:
        """Run to the end.

        Args:
            prompt: What the user says; None goes on with `messages`.
            context: The run's context object, given to tools and hooks.
            call: See `CallOptions`.

        Returns:
            The result, also when a stop condition or a client-side tool ended the run.

        Raises:
            InvalidInputError: The prompt or the messages cannot be sent.
            RunCancelled: The run was cancelled; `.partial` has what was done.
            RunError: The run ended without its answer.
            ModelError: The model could not be asked.
        """
        run: Run[Any] = Run(self._begin(prompt, context, call, streaming=False))
        try:
            return await run.result()
        finally:
            await run.aclose()

    @overload
    def stream(
        self: ToolLoopAgent[None, O],
        prompt: Content | None = None,
        *,
        context: None = None,
        **call: Unpack[CallOptions],
    ) -> StreamHandle[O]: ...

    @overload
    def stream(self, prompt: Content | None = None, *, context: C, **call: Unpack[CallOptions]) -> StreamHandle[O]: ...

    def stream(
        self, prompt: Content | None = None, *, context: Any = None, **call: Unpack[CallOptions]
    ) -> StreamHandle[Any]:
        """A run that tells what happens as it happens. Nothing starts before it is iterated.

        `async for part in agent.stream(...)` runs it, anew at each iteration; `async with agent.stream(...) as run`
        gives one run in hand, which can be steered and cancelled, and is closed at the end of the block.

        Args:
            prompt: What the user says; None goes on with `messages`.
            context: The run's context object, given to tools and hooks.
            call: See `CallOptions`.
        """
        return StreamHandle(lambda: Run(self._begin(prompt, context, call, streaming=True)))

    @overload
    def generate_sync(
        self: ToolLoopAgent[None, O],
        prompt: Content | None = None,
        *,
        context: None = None,
        **call: Unpack[CallOptions],
    ) -> GenerateResult[O]: ...

    @overload
    def generate_sync(
        self, prompt: Content | None = None, *, context: C, **call: Unpack[CallOptions]
    ) -> GenerateResult[O]: ...

    def generate_sync(
        self, prompt: Content | None = None, *, context: Any = None, **call: Unpack[CallOptions]
    ) -> GenerateResult[Any]:
        """`generate` for scripts that are not async.

        Raises:
            RuntimeError: An event loop runs in this thread already; await `generate` there.
        """
        if _in_event_loop():
            raise RuntimeError(
                "generate_sync was called inside a running event loop, which it would block. "
                "Use: await agent.generate(...)"
            )

        async def run() -> GenerateResult[Any]:
            return await self.generate(prompt, context=context, **call)

        return anyio.run(run)

    @overload
    def events(
        self: ToolLoopAgent[None, O],
        prompt: Content | None = None,
        *,
        context: None = None,
        **call: Unpack[CallOptions],
    ) -> EventsHandle[O]: ...

    @overload
    def events(self, prompt: Content | None = None, *, context: C, **call: Unpack[CallOptions]) -> EventsHandle[O]: ...

    def events(
        self, prompt: Content | None = None, *, context: Any = None, **call: Unpack[CallOptions]
    ) -> EventsHandle[Any]:
        """A run told whole: its start, steps, tool calls and end, with the stream parts in between as `Chunk`s.

        Nothing starts before it is iterated, and each iteration is a run of its own; see `loopwright.lifecycle`.

        Args:
            prompt: What the user says; None goes on with `messages`.
            context: The run's context object, given to tools and hooks.
            call: See `CallOptions`.
        """
        return EventsHandle(lambda: EventsRun(self._begin(prompt, context, call, streaming=True)))

    @overload
    async def collect_agent_events(
        self: ToolLoopAgent[None, O],
        handler: Callable[[AgentEvent], Awaitable[None] | None],
        prompt: Content | None = None,
        *,
        context: None = None,
        **call: Unpack[CallOptions],
    ) -> None: ...

    @overload
    async def collect_agent_events(
        self,
        handler: Callable[[AgentEvent], Awaitable[None] | None],
        prompt: Content | None = None,
        *,
        context: C,
        **call: Unpack[CallOptions],
    ) -> None: ...

    async def collect_agent_events(
        self,
        handler: Callable[[AgentEvent], Awaitable[None] | None],
        prompt: Content | None = None,
        *,
        context: Any = None,
        **call: Unpack[CallOptions],
    ) -> None:
        """Run, and give each event of `events` to a handler, which may be async. What it raises stops the run."""
        async with self.events(prompt, context=context, **call) as run:
            async for event in run:
                answer = handler(event)
                if answer is not None:
                    await answer

    # ------------------------------------------------------------ from a user interface

    def dispatch(self, action: Action | type[Any]) -> bool:
        """Drive the agent from a user interface, from any task or thread. See `loopwright.actions`.

        `Submit` goes on with a conversation that the agent keeps for this, and supersedes what is in flight there;
        `Cancel` stops every run in flight on this instance.

        Returns:
            False where there was nothing to act on; then nothing changed.

        Raises:
            LoopwrightError: There is no such action, or the agent was closed.
            RuntimeError: A run would have to begin, and no event loop is known.
        """
        return self._engine.dispatch(action)

    @property
    def engine_state(self) -> EngineState:
        """What a user interface shows: the state of the latest run on this instance; a snapshot."""
        return self._engine.state

    def engine_states(self) -> AsyncIterator[EngineState]:
        """Snapshots as they change, the present one first. Ends when the agent is closed."""
        return self._engine.states()

    def close(self) -> None:
        """Stop every run in flight, and take no more actions. May be called more than once, from any thread."""
        self._engine.close()

    # ------------------------------------------------------------ how a run is put together

    def _begin(self, prompt: Content | None, context: Any, call: CallOptions, *, streaming: bool) -> RunDriver:
        return begin_run(
            self, self._defaults, prompt, context=context, call=call, streaming=streaming, watcher=self._engine
        )

    def _begin_for_engine(self, prompt: Any, messages: list[Message], context: Any) -> RunDriver:
        return self._begin(prompt, context, {"messages": messages}, streaming=True)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _in_event_loop() -> bool:
    try:
        current_token()
    except RuntimeError:
        return False
    return True
