"""A local model as a `LanguageModel`: the server starts at the first request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl

import anyio.to_thread

from ...errors import (
    ContextOverflowError,
    InvalidArgumentError,
    LocalModelError,
    ModelConnectionError,
    ModelError,
    ModelResponseError,
    UnknownModelError,
)
from ...events import ModelEvent
from ...messages import AssistantMessage
from ..auth import bearer
from ..base import Capabilities, ModelRequest, ModelStream
from ..http_model import HTTPModel
from ..openai_chat.codec import ChatCodec
from .catalog import CATALOG, DEFAULT, DEFAULT_CONTEXT, LocalModelFile
from .fetch import cache_folder, fetch_model
from .process import WORKER, WorkerProcess
from .progress import ProgressListener, ProgressPrinter
from .server import LocalServer, ServerKey, check_installed, shared_server

__all__ = ["LocalModel", "LocalStream", "local_model"]

_DEATH_SECONDS = 1.0
_TEMPLATES = Path(__file__).parent / "templates"
_printer = ProgressPrinter()


def local_model(name: str = "", *, n_ctx: int | None = None, progress: ProgressListener | None = None) -> LocalModel:
    """A model that runs on this machine. Nothing is fetched or started before the first request.

    Args:
        name: A name of the catalog, empty or `default` for the default one, or the path of a .gguf file. An option may
            follow as in a URL: `default?n_ctx=8192`.
        n_ctx: Tokens of the context window, 4096 by default; goes before the one in the name.
        progress: Told how far fetching and loading are; prints to standard error by default. `silent` tells nobody.

    Raises:
        UnknownModelError: There is no such model; the message lists those that there are.
        InvalidArgumentError: An option is wrong.
    """
    bare, asked = _split(name)
    context = n_ctx if n_ctx is not None else asked if asked is not None else DEFAULT_CONTEXT
    if isinstance(context, bool) or not isinstance(context, int) or context < 1:
        raise InvalidArgumentError(f"n_ctx must be a positive number of tokens, not {context!r}.")
    if bare.lower().endswith(".gguf") or "/" in bare or "\\" in bare:
        path = Path(bare).expanduser()
        return LocalModel(path.stem, _OwnFile(path), n_ctx=context, progress=progress)
    row = CATALOG.get(DEFAULT if bare in ("", "default") else bare.lower())
    if row is None:
        close = get_close_matches(bare.lower(), CATALOG, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownModelError(
            f"There is no local model {bare!r}.{hint} There are: {', '.join(CATALOG)}, and any file: "
            "local:/path/to/model.gguf"
        )
    if context > row.max_context:
        raise InvalidArgumentError(f"n_ctx of {row.name!r} can be at most {row.max_context} tokens, not {context}.")
    return LocalModel(row.name, row, n_ctx=context, progress=progress)


def _split(name: str) -> tuple[str, int | None]:
    """A name without its options, and n_ctx where it is among them."""
    bare, mark, query = name.rpartition("?")
    if not mark:
        return name, None
    options = dict(parse_qsl(query, keep_blank_values=True))
    asked = options.pop("n_ctx", None)
    if options or asked is None:
        raise InvalidArgumentError(
            f"A local model has one option, as in 'local:default?n_ctx=8192'; it has no {query!r}."
        )
    if not (asked.isascii() and asked.isdecimal()):
        raise InvalidArgumentError(f"n_ctx must be a positive number of tokens, not {asked!r}.")
    return bare, int(asked)


@dataclass(frozen=True, slots=True)
class _OwnFile:
    """A model file of the user's own."""

    path: Path

    def locate(self) -> Path:
        if not self.path.is_file():
            raise LocalModelError(f"There is no model file {self.path}. Check the path after 'local:'.")
        return self.path


class LocalModel:
    """A `LanguageModel` that runs on this machine, in llama.cpp.

    All models of this process with the same file and context window share a server, which answers one request at a
    time.

    Attributes:
        provider: `local`.
        api: `openai-chat`.
        name: The model's name.
        capabilities: What it can do.
    """

    provider = "local"
    api = "openai-chat"

    def __init__(
        self,
        name: str,
        source: LocalModelFile | _OwnFile,
        *,
        n_ctx: int = DEFAULT_CONTEXT,
        progress: ProgressListener | None = None,
        command: Sequence[str] = WORKER,
    ) -> None:
        """Describe a model; `local_model` does it by name.

        Args:
            name: The model's name.
            source: Its row in the catalog, or the user's own file.
            n_ctx: Tokens of the context window.
            progress: Told how far it is.
            command: The command line of the process that serves it.
        """
        self.name = name
        known = source.capabilities if isinstance(source, LocalModelFile) else Capabilities(images=False, files=False)
        self.capabilities = replace(known, context_window=n_ctx)
        self._source = source
        self._template = source.template if isinstance(source, LocalModelFile) else None
        self._n_ctx = n_ctx
        self._progress = progress or _printer
        self._command = command
        self._key: ServerKey | None = None
        self._http: tuple[WorkerProcess, HTTPModel] | None = None

    async def generate(self, request: ModelRequest) -> AssistantMessage:
        """Ask, and wait for the whole answer.

        Raises:
            LocalModelError: The model cannot be had or started, or its server died.
            ModelError: There is no whole answer.
        """
        # Read as a stream: in the middle of an answer that goes out whole, llama.cpp does not notice that nobody waits
        # for it any more, and keeps its only slot busy until the end.
        message = await (await self.stream(request)).result()
        if message.failed:
            error = ModelResponseError(
                message.error or f"The local model {self.name!r} ended its answer with {message.finish_reason!r}.",
                retryable=True,
            )
            error.answer = message
            raise error
        return message

    async def stream(self, request: ModelRequest) -> LocalStream:
        """Ask, and get the answer as it comes.

        Raises:
            LocalModelError: The model cannot be had or started, or its server died.
            ModelError: The request was refused.
        """
        worker, http = await self._ready()
        try:
            stream = await http.stream(request)
        except ModelError as error:
            await self._explain(worker, error)
            raise
        return LocalStream(stream, lambda error: self._explain(worker, error))

    def server(self) -> LocalServer:
        """The server that serves it, shared with the other models of this process that need the same.

        Raises:
            LocalModelError: The extra `local` is not installed.
        """
        if self._key is None:
            check_installed()
            path = self._source.path if isinstance(self._source, _OwnFile) else cache_folder() / self._source.file
            self._key = ServerKey(str(path.resolve()), self._n_ctx, self._template)
        return shared_server(self._key, lambda: self._make_server(self._source))

    def _make_server(self, source: LocalModelFile | _OwnFile) -> LocalServer:
        assert self._key is not None
        if isinstance(source, _OwnFile):
            return LocalServer(self._key, self.name, lambda _: source.locate(), command=self._command)
        return LocalServer(
            self._key,
            self.name,
            lambda report: fetch_model(source, report),
            memory=source.memory_for(self._n_ctx),
            template=None if self._template is None else (_TEMPLATES / self._template).read_text("utf-8"),
            command=self._command,
        )

    async def _ready(self) -> tuple[WorkerProcess, HTTPModel]:
        worker = await self.server().ready(self._progress)
        if self._http is None or self._http[0] is not worker:
            model = HTTPModel(
                provider=self.provider,
                name=self.name,
                codec=ChatCodec(),
                base_url=worker.base_url,
                auth=bearer(worker.key),
                # It closes connections that idle for a moment, at times while the next request is on its way.
                headers={"connection": "close"},
                capabilities=self.capabilities,
            )
            self._http = worker, model
        return self._http

    async def _explain(self, worker: WorkerProcess, error: ModelError) -> None:
        """Raise a better error where the reason is known here."""
        if isinstance(error, ContextOverflowError):
            error.add_note(
                f"The local model {self.name!r} has a context of {self._n_ctx} tokens. Ask for more with n_ctx, as in "
                f"'local:default?n_ctx={2 * self._n_ctx}'."
            )
        if not isinstance(error, ModelConnectionError):
            return
        # It is known to have died a moment after its connections broke.
        death = await anyio.to_thread.run_sync(worker.death, _DEATH_SECONDS, abandon_on_cancel=True)
        if not death:
            return
        dead = LocalModelError(
            f"The server of the local model {self.name!r} died while it answered: {death}\n"
            "The next request starts it again. If it was ended for want of memory, free some or use a smaller model."
        )
        dead.retryable = True
        raise dead from error

    def __repr__(self) -> str:
        return f"<LocalModel {self.name}>"


class LocalStream:
    """One answer of a local model as it comes; a `ModelStream`. A dead server is told as such."""

    __slots__ = ("_explain", "_pop_ready", "_stream")

    def __init__(self, stream: ModelStream, explain: Callable[[ModelError], Awaitable[None]]) -> None:
        """Read an answer.

        Args:
            stream: The answer.
            explain: Raises a better error where there is one.
        """
        self._stream = stream
        self._explain = explain
        self._pop_ready: Callable[[], ModelEvent | None] | None = getattr(stream, "pop_ready", None)

    def __aiter__(self) -> LocalStream:
        return self

    async def __anext__(self) -> ModelEvent:
        try:
            return await anext(self._stream)
        except ModelError as error:
            await self._explain(error)
            raise

    def pop_ready(self) -> ModelEvent | None:
        """An event that is decoded already, or None."""
        return self._pop_ready() if self._pop_ready is not None else None

    async def result(self) -> AssistantMessage:
        """The complete answer.

        Raises:
            ModelError: It is not complete.
        """
        try:
            return await self._stream.result()
        except ModelError as error:
            await self._explain(error)
            raise

    async def aclose(self) -> None:
        """Free the connection; the server stops answering."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()
