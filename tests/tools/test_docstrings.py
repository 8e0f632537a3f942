"""Docstrings become descriptions."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.tools.docstrings import Docs, read_docstring


def documented(text: str | None) -> Any:
    def function() -> None: ...

    function.__doc__ = text
    return function


GOOGLE = """Find one order.

    Longer text
    over two lines.

    Args:
        order_id: The id on the receipt.
            Continued here.
        amount (int, optional): How much: in euro.

    Note:
        Ask once.

    Returns:
        The order.

    Raises:
        KeyError: No such order.
    """

NUMPY = """Find one order.

    Parameters
    ----------
    order_id : str
        The id on the receipt.
    a, b : int
        Both.

    Returns
    -------
    Order
        It.

    Notes
    -----
    Ask once.
    """

SPHINX = """Find one order.

    :param order_id: The id
        on the receipt.
    :param int amount: How much.
    :type order_id: str
    :returns: It.
    :raises KeyError: No such order.

    Ask once.
    """


@pytest.mark.parametrize(
    ("text", "docs"),
    [
        (None, Docs("", {})),
        ("", Docs("", {})),
        ("Find.", Docs("Find.", {})),
        (
            GOOGLE,
            Docs(
                "Find one order.\n\nLonger text\nover two lines.\n\nNote:\n    Ask once.",
                {"order_id": "The id on the receipt. Continued here.", "amount": "How much: in euro."},
            ),
        ),
        (
            NUMPY,
            Docs(
                "Find one order.\n\nNotes\n-----\nAsk once.",
                {"order_id": "The id on the receipt.", "a": "Both.", "b": "Both."},
            ),
        ),
        (
            SPHINX,
            Docs("Find one order.\n\nAsk once.", {"order_id": "The id on the receipt.", "amount": "How much."}),
        ),
        ("Find.\nArgs:\n    q: The query.", Docs("Find.", {"q": "The query."})),
        ("Find.\n\n@param q: The query.", Docs("Find.", {"q": "The query."})),
        ("\nArgs:\n    q: The query.", Docs("", {"q": "The query."})),
        ("Find.\n\nArgs:\n    q:", Docs("Find.", {})),
        ("Find.\n\nArgs:\n    *rest: The rest.", Docs("Find.", {"rest": "The rest."})),
        (
            "Search. Rules:\n    be quick\n    be nice\nArgs are elsewhere: x",
            Docs("Search. Rules:\n    be quick\n    be nice\nArgs are elsewhere: x", {}),
        ),
        (
            "Do.\n\nExample:\n    >>> do(q=1)\n\nArgs:\n    q: See https://x.y/z: it.",
            Docs("Do.\n\nExample:\n    >>> do(q=1)", {"q": "See https://x.y/z: it."}),
        ),
    ],
)
def test_styles(text: str | None, docs: Docs) -> None:
    assert read_docstring(documented(text)) == docs


@given(
    st.lists(
        st.sampled_from(["Args:", "    a: b", "Returns", "-------", ":param a: b", ":", "    ", "@x", "text", "\x0c"])
        | st.text(max_size=8)
    ).map("\n".join)
)
def test_no_docstring_is_refused(text: str) -> None:
    docs = read_docstring(documented(text))
    kept = {line.strip() for line in docs.description.splitlines()}
    assert kept <= {line.strip() for line in (inspect.getdoc(documented(text)) or "").splitlines()}
    assert all(words.strip() for words in docs.parameters.values())


def test_the_parser_is_loaded_by_the_first_declaration_that_has_something_to_parse() -> None:
    code = (
        "import sys\n"
        "from loopwright.tools import tool\n"
        "@tool\n"
        "def find(a: int) -> int:\n"
        "    '''Find.\n\n    Args:\n        a: It.\n    '''\n"
        "@tool\n"
        "def plain(a: int) -> int:\n"
        "    '''Find.'''\n"
        "plain.declaration()\n"
        "before = 'docstring_parser' in sys.modules\n"
        "find.declaration()\n"
        "print(before, 'docstring_parser' in sys.modules, 'griffe' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
