"""A call waits for a person, and three processes deal with it.

    python examples/approval.py ask "Order 4711 came broken. Please refund 30 euros." waiting.json
    python examples/approval.py answer waiting.json finished.json --amount 20
    python examples/approval.py answer waiting.json finished.json --amount 20

The first asks for approval, saves the conversation and exits. The second loads it, edits an argument, approves, and
finishes. The third gives the same answer to the same saved conversation and is refused: a request is answered once.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from loopwright import (
    GenerateResult,
    Message,
    ModelSettings,
    ToolContext,
    ToolLoopAgent,
    approvals,
    dump_messages,
    load_messages,
    pending_approvals,
    tool,
)
from loopwright.errors import ApprovalError


class SQLiteLedger:
    """Remembers which requests were answered, for all processes that share the file; an `ApprovalLedger`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def claim(self, approval_ids: Sequence[str]) -> Sequence[str]:
        """Mark requests as answered: all in one transaction, or none."""
        return await anyio.to_thread.run_sync(self._claim, approval_ids)

    def _claim(self, approval_ids: Sequence[str]) -> Sequence[str]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute("create table if not exists answered (approval_id text primary key)")
            db.execute("begin immediate")
            before = [
                one
                for one in approval_ids
                if db.execute("select 1 from answered where approval_id = ?", [one]).fetchone()
            ]
            if not before:
                db.executemany("insert into answered values (?)", [[one] for one in approval_ids])
            db.execute("commit")
        return before


class RefundAgent(ToolLoopAgent[Path, str]):
    """Refunds orders, when a person agrees. Its context is the file that it books in."""

    model = "local:"
    instructions = "You refund orders. Call issue_refund, then tell the customer in one sentence what was refunded."
    model_settings = ModelSettings(temperature=0, seed=1, max_output_tokens=200)
    # Whoever holds the saved conversation cannot make up a request, or change a call, without this.
    approval_secret = os.environ.get("APPROVAL_SECRET", "a secret of your own")

    @tool(needs_approval=True)
    async def issue_refund(self, ctx: ToolContext[Path], order: str, amount: float) -> str:
        """Refund an order.

        Args:
            order: The order's number.
            amount: Euros to pay back.
        """
        async with await anyio.open_file(ctx.context, "a") as book:
            # The key is the same whenever this very call is run: a payment service takes it to pay once.
            await book.write(f"{order} {amount:.2f} {ctx.idempotency_key}\n")
        return f"Refunded {amount:.2f} euros for order {order}."


async def ask(agent: RefundAgent, request: str, book: Path) -> GenerateResult[str]:
    """Run until a person is needed."""
    result = await agent.generate(request, context=book)
    for pending in result.pending_approvals:
        print(f"Waiting for approval: {pending.tool_name} {pending.input}")
    return result


async def answer(agent: RefundAgent, messages: list[Message], book: Path, amount: float | None) -> GenerateResult[str]:
    """Approve what waits, with another amount if one is given, and run to the end."""
    answers = [
        pending.approve(
            arguments=None if amount is None else {**(pending.input or {}), "amount": amount}, approver="cashier"
        )
        for pending in pending_approvals(messages)
    ]
    return await agent.generate(messages=[*messages, approvals(*answers)], context=book)


def main(arguments: Sequence[str] | None = None, **settings: Any) -> int:
    """Do one of the two; the exit status says whether it was done."""
    parser = argparse.ArgumentParser(description="A call waits for a person.")
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("ask", help="run until a person is needed, and save the conversation")
    first.add_argument("request")
    first.add_argument("waiting", type=Path)
    second = commands.add_parser("answer", help="approve what waits in a saved conversation, and go on")
    second.add_argument("waiting", type=Path)
    second.add_argument("finished", type=Path)
    second.add_argument("--amount", type=float, help="euros to pay back instead of what the model asked for")
    given = parser.parse_args(arguments)
    book = given.waiting.with_suffix(".book")
    agent = RefundAgent(approval_ledger=SQLiteLedger(given.waiting.with_suffix(".db")), **settings)
    if given.command == "ask":
        result = anyio.run(ask, agent, given.request, book)
        given.waiting.write_bytes(dump_messages(result.messages))
        return 0
    try:
        result = anyio.run(answer, agent, load_messages(given.waiting.read_bytes()), book, given.amount)
    except ApprovalError as error:
        print(f"Refused: {error}")
        return 1
    given.finished.write_bytes(dump_messages(result.messages))
    print(f"Answer: {result.text}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
