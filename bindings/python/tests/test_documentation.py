"""The documentation of the public items. pytest runs their examples."""

from __future__ import annotations

import inspect

import tenure
import tenure.asgi
import tenure.testing

#: Names of types, which have a comment.
ALIASES = {"Holder", "Seconds", "Store"}


def test_every_public_item_has_an_example() -> None:
    for module in (tenure, tenure.asgi, tenure.testing):
        for name in set(module.__all__) - ALIASES - {"testing"}:
            item = getattr(module, name)
            assert ">>>" in (item.__doc__ or ""), name
            members = vars(item) if inspect.isclass(item) else {}
            for member, value in members.items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert inspect.getdoc(value), f"{name}.{member}"
