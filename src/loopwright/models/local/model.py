"""A local model as a `LanguageModel`: the server starts at the first request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl

import anyio.to_thread

from ...errors import InvalidArgumentError, LocalModelError, ModelConnectionError, UnknownModelError
from ...events import ModelEvent
from ...messages import AssistantMessage
from ..base import Capabilities, ModelRequest
from ..http_model import HTTPModel, HTTPStream
from ..openai_chat.codec import ChatCodec
from .catalog import CATALOG, DEFAULT, LocalModelFile
from .fetch import fetch_model
from .progress import ProgressListener, ProgressPrinter
from .server import LocalServer, ServerSettings, default_threads, shared_server

__all__ = ["LocalModel", "LocalStream", "local_model"]

_CONTEXT = 4096


def local_model(name: str = "", *, n_ctx: int | None = None, progress: ProgressListener | None = None) -> LocalModel:
    """A model that runs on this machine.

    Args:
        name: A name of the catalog, empty or `default` for the default one, or the path of a .gguf file. Options may
            follow as in a URL: `default?n_ctx=8192`.
        n_ctx: Tokens of the context window, 4096 by default.
        progress: Told how far fetching and loading are; prints to standard error by default.

    Raises:
        UnknownModelError: There is no such model; the message lists those that there are.
        InvalidArgumentError: An option is wrong.
    """
    bare, _, query = name.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    asked = options.pop("n_ctx", None)
    if options:
        raise InvalidArgumentError(f"A local model has no option {', '.join(map(repr, options))}; it has n_ctx.")
    if asked is not None:
        if not asked.isdecimal():
            raise InvalidArgumentError(f"n_ctx must be a number of tokens, not {asked!r}.")
        n_ctx = int(asked)
    context = _CONTEXT if n_ctx is None else n_ctx
    if context < 1:
        raise InvalidArgumentError(f"n_ctx must be positive, not {context}.")
    if bare.endswith(".gguf"):
        return LocalModel(Path(bare).stem, path=Path(bare).expanduser(), n_ctx=context, progress=progress)
    row = CATALOG.get(DEFAULT if bare in ("", "default") else bare)
    if row is None:
        raise UnknownModelError(
            f"There is no local model {bare!r}. There are: {', '.join(CATALOG)}, and any file: local:/path/to/model.gguf"
        )
    return LocalModel(row.name, row=row, n_ctx=context, progress=progress)


class LocalModel:
    """A `LanguageModel` that runs on this machine, in llama.cpp.

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
        *,
        row: LocalModelFile | None = None,
        path: Path | None = None,
        n_ctx: int = _CONTEXT,
        progress: ProgressListener | None = None,
        make_server: Callable[[ServerSettings], LocalServer] = shared_server,
    ) -> None:
        """Describe a model; nothing is fetched or started yet.

        Args:
            name: The model's name.
            row: Its row in the catalog.
            path: Its file, where it has no row.
            n_ctx: Tokens of the context window.
            progress: Told how far it is.
            make_server: Gives the server of some settings.
        """
        self.name = name
        self.capabilities = Capabilities(images=False, files=False) if row is None else row.capabilities
        self._row = row
        self._path = path
        self._n_ctx = n_ctx
        self._progress = progress or ProgressPrinter()
        self._make_server = make_server
        self._server: LocalServer | None = None
        self._http: HTTPModel | None = None

    async def generate(self, request: ModelRequest) -> AssistantMessage:
        """Ask, and wait for the whole answer.

        Raises:
            LocalModelError: The model cannot be had or started, or its server died.
            ModelError: There is no whole answer.
        """
        http = await self._ready()
        try:
            return await http.generate(request)
        except ModelConnectionError as error:
            raise self._explained(error) from error

    async def stream(self, request: ModelRequest) -> LocalStream:
        """Ask, and get the answer as it comes.

        Raises:
            LocalModelError: The model cannot be had or started, or its server died.
            ModelError: The request was refused.
        """
        http = await self._ready()
        try:
            return LocalStream(await http.stream(request), self._explained)
        except ModelConnectionError as error:
            raise self._explained(error) from error

    async def _ready(self) -> HTTPModel:
        """The model behind its server, fetched and started in a thread: loading takes seconds, and a download minutes."""
        base_url = await anyio.to_thread.run_sync(self._start, abandon_on_cancel=True)
        if self._http is None or self._http.base_url != base_url:
            self._http = HTTPModel(
                provider=self.provider,
                name=self.name,
                codec=ChatCodec(),
                base_url=base_url,
                capabilities=self.capabilities,
            )
        return self._http

    def _start(self) -> str:
        if self._server is None or not self._server.running:
            path = fetch_model(self._row, self._progress) if self._row is not None else self._path
            settings = ServerSettings(
                name=self.name,
                path=str(path),
                n_ctx=self._n_ctx,
                threads=default_threads(),
                memory=0 if self._row is None else self._row.memory,
            )
            self._server = self._make_server(settings)
        return self._server.ensure(self._progress)

    def _explained(self, error: ModelConnectionError) -> ModelConnectionError | LocalModelError:
        failure = self._server.failure() if self._server is not None else ""
        if not failure:
            return error
        return LocalModelError(
            f"The server of the local model {self.name!r} died while it answered: {failure}\n"
            "The next request starts it again."
        )

    def __repr__(self) -> str:
        return f"<LocalModel {self.name}>"


class LocalStream:
    """One answer of a local model as it comes; a `ModelStream`. A dead server is told as such."""

    __slots__ = ("_explained", "_stream", "pop_ready")

    def __init__(
        self, stream: HTTPStream, explained: Callable[[ModelConnectionError], ModelConnectionError | LocalModelError]
    ) -> None:
        self._stream = stream
        self._explained = explained
        self.pop_ready = stream.pop_ready

    def __aiter__(self) -> LocalStream:
        return self

    async def __anext__(self) -> ModelEvent:
        try:
            return await anext(self._stream)
        except ModelConnectionError as error:
            raise self._explained(error) from error

    async def result(self) -> AssistantMessage:
        """The complete answer."""
        return await self._stream.result()

    async def aclose(self) -> None:
        """Free the connection; the server stops answering."""
        await self._stream.aclose()
