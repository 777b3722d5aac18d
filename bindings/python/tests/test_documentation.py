"""The documentation of the public items, and its examples."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
import types
import typing
from typing import Any

import pytest
import tenure
import tenure.asgi
import tenure.testing

MODULES = {module.__name__: module for module in (tenure, tenure.asgi, tenure.testing)}
#: Type aliases. They have a comment instead of a docstring.
ALIASES = {"Holder", "Seconds", "Store"}
ITEMS: dict[str, Any] = {
    f"{path}.{name}": getattr(module, name)
    for path, module in MODULES.items()
    for name in set(module.__all__) - ALIASES - {"testing"}
}


def examples(name: str) -> list[doctest.DocTest]:
    """Return the examples of an item and its members, or of a module alone."""
    finder = doctest.DocTestFinder(recurse=name in ITEMS)
    item = ITEMS.get(name) or MODULES[name]
    return finder.find(item, name, module=typing.cast(Any, False), globs={})


def members(item: object) -> dict[str, Any]:
    """Return the public methods and properties of a class."""
    values = vars(item) if inspect.isclass(item) else {}
    kinds = (types.FunctionType, property)
    return {name: it for name, it in values.items() if isinstance(it, kinds) and name[0] != "_"}


@pytest.mark.parametrize("name", sorted({*MODULES, *ITEMS}))
def test_the_examples_run(name: str) -> None:
    for test in examples(name):
        assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0, test.name


def test_each_item_has_an_example_and_each_member_is_in_an_example() -> None:
    tests = {name: examples(name) for name in ITEMS}
    code = "".join(it.source for found in tests.values() for test in found for it in test.examples)
    missing = [name for name, found in tests.items() if not found or not found[0].examples]
    for name, item in ITEMS.items():
        for member, value in members(item).items():
            text = inspect.getdoc(value) or ""
            refers = member.endswith("_async") and f"``{member[: -len('_async')]}``" in text
            if not text or not refers and not re.search(rf"\.{member}\b", code):
                missing.append(f"{name}.{member}")
    assert missing == []


def test_each_parameter_is_described() -> None:
    missing = []
    for name, item in ITEMS.items():
        is_made_here = inspect.isclass(item) and issubclass(item, (Exception, typing.Generic))
        of_item = {} if is_made_here or dataclasses.is_dataclass(item) else {"": item}
        for member, value in {**of_item, **members(item)}.items():
            if member.endswith("_async") or isinstance(value, property):
                continue
            parameters = set(inspect.signature(value).parameters) - {"self"}
            for parameter in parameters if "inner" not in parameters else ():  # not for callers
                if not re.search(rf"\b{parameter}\b", value.__doc__):
                    missing.append(f"{name}.{member}({parameter})")
    assert missing == []


def test_the_public_module_is_the_module_of_its_items() -> None:
    for name, item in ITEMS.items():
        assert f"{item.__module__}.{item.__qualname__}" == name
        typing.get_type_hints(item)


def test_the_keys_of_reports_are_described() -> None:
    store = tenure.testing.MemoryStore()
    group = tenure.Group(store, prefix="shards", partitions=1, poll_interval=0.1)
    found: dict[str, Any] = {}

    def work(partition: tenure.Partition) -> None:
        found.update(group.snapshot())
        group.leave()

    group.run(work)
    shown = re.findall(r"``(\w+)``", tenure.Group.snapshot.__doc__ or "")
    assert {*found, *found["members"][0], *found["partitions"][0]} == set(shown) - {"None"}
    tenure.Election(store, prefix="orders").campaign().resign()
    report = tenure.Compactor(store, prefix="orders").run()
    shown = re.findall(r"``(\w+)``", tenure.Compactor.run.__doc__ or "")
    assert set(report) == set(shown) - {"None", "min_age"}
