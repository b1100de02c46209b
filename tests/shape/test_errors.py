"""The tree of errors that errors.py draws is the tree that its classes make."""

import inspect
import re

from outlast.core import errors

DRAWN = re.compile(r"^(?P<rails>[ │├└─]*)(?P<name>[A-Z]\w+)(?:\s{2,}\S.*)?$")
RAIL = 3


def test_the_drawing_is_the_tree():
    assert drawn(errors.__doc__ or "") == defined()


def test_every_error_says_what_it_is():
    silent = [error.__name__ for error in classes() if not error.__dict__.get("__doc__")]
    assert silent == []


def test_a_drawing_is_read_line_by_line():
    picture = """Words.

    Top
    ├─ Left          somebody
    │  └─ Under
    └─ Right

    Other            a note
    """
    assert drawn(picture) == {
        "Top": None,
        "Left": "Top",
        "Under": "Left",
        "Right": "Top",
        "Other": None,
    }


def drawn(docstring: str) -> dict[str, str | None]:
    """Each error of the drawing with the one that it hangs from."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in inspect.cleandoc(docstring).splitlines()[1:]:
        found = DRAWN.match(line.removeprefix("    "))
        if found:
            depth = len(found["rails"]) // RAIL
            path[depth:] = [found["name"]]
            parents[found["name"]] = path[depth - 1] if depth else None
    return parents


def defined() -> dict[str, str | None]:
    names = {error.__name__ for error in classes()}
    return {
        error.__name__: base if (base := error.__bases__[0].__name__) in names else None
        for error in classes()
    }


def classes() -> list[type[BaseException]]:
    return [
        thing
        for thing in vars(errors).values()
        if inspect.isclass(thing)
        and issubclass(thing, BaseException)
        and thing.__module__ == errors.__name__
    ]
