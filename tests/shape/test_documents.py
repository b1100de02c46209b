"""Code in the documentation runs: each page from top to bottom, as a reader would run it."""

import sys

import pytest

from tests.shape.house import ROOT, shown
from tests.support import documents
from tests.support.documents import Page, blocks, commands, differs

PAGES = [
    path
    for path in [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    if path.name != "CHANGELOG.md"
]

A_PAGE = """
# A page

<!-- not run: it needs a network -->
```console
$ pip install outlast
```

```python title="greeting.py"
WORDS = "hello"
```

```python
import greeting
said = greeting.WORDS
```

1. In a list:

   ```python
   from pathlib import Path

   assert said == "hello"
   Path("said.txt").write_text(f"{said}\\n")
   ```

```console
$ cat said.txt
hello
$ printf 'one 17\\ntwo\\nthree\\n' \\
    | cat
one ...
three
$ sleep 600 &
```

```toml
not = "code"
```
"""


@pytest.fixture
def reader(tmp_path, monkeypatch, processes):
    """Runs a page in an empty folder, with none of our settings; returns how many blocks ran."""
    for name in ("OUTLAST_DB", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, words in documents.surroundings().items():
        monkeypatch.setenv(name, words)
    yield lambda path: Page(path, tmp_path, processes).run()
    documents.forget_modules(tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_the_code_of_a_page_runs(path, reader):
    reader(path)


@pytest.fixture
def page(tmp_path_factory):
    """Writes a page, and returns its path."""
    path = tmp_path_factory.mktemp("pages") / "page.md"

    def write(text):
        path.write_text(text)
        return path

    return write


def test_a_page_runs_from_top_to_bottom_in_one_folder(page, reader):
    assert reader(page(A_PAGE)) == 4


def test_a_module_of_one_page_is_not_there_in_the_next(page, reader, tmp_path):
    reader(page(A_PAGE))
    assert "greeting" in sys.modules
    documents.forget_modules(tmp_path)
    assert "greeting" not in sys.modules


def test_python_that_fails_fails_at_its_line_of_the_page(page, reader):
    path = page("\n\n```python\nfine = 1\nassert fine == 2\n```\n")
    with pytest.raises(AssertionError) as failed:
        reader(path)
    assert (failed.traceback[-1].path, failed.traceback[-1].lineno + 1) == (path, 5)


def test_a_command_that_fails_fails_the_page(page, reader):
    with pytest.raises(AssertionError, match=r"page.md:1: \$ ls nowhere: exit code"):
        reader(page("```console\n$ ls nowhere\n```\n"))


def test_output_that_is_not_as_shown_fails_the_page(page, reader):
    with pytest.raises(AssertionError, match="expected the line\n  other"):
        reader(page("```console\n$ echo this\nother\n```\n"))


def test_a_reason_must_be_given_to_show_a_block_without_running_it():
    shown_only, run = blocks(
        "<!-- not run: it costs money -->\n```python\n1\n```\n<!-- not run: -->\n```python\n2\n```"
    )
    assert (shown_only.reason, run.reason) == ("it costs money", "")


def test_commands_and_their_output_are_told_apart():
    first, second = commands("$ one \\\n   more\nout\n$ two &\n")
    assert (first.words, first.expected, first.goes_on) == ("one more", ("out",), False)
    assert (second.expected, second.goes_on) == ((), True)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (("a", "c"), "a\nb\nc", True),
        (("c", "a"), "a\nb\nc", False),
        (("pid ...",), "pid 17", True),
        (("pid ... died",), "pid 17 lives", False),
        (("...",), "", True),
        (("a",), "ab", False),
        ((), "anything", True),
    ],
)
def test_output_is_compared_line_by_line_and_in_order(expected, printed, same):
    assert (differs(expected, printed) == "") is same
