"""Where a setting comes from: flag, variable, file, default; and what none of them may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.core.durations import duration_ms, short_age
from outlast.core.errors import BadSetting
from outlast.settings import DEFAULT_DB, Settings, lease_ttl_ms, redacted


def settings(folder: Path, **environ: str) -> Settings:
    return Settings(environ, folder)


def test_a_flag_wins_over_a_variable_over_a_file_over_the_default(tmp_path: Path) -> None:
    assert settings(tmp_path).db() == DEFAULT_DB
    (tmp_path / "pyproject.toml").write_text('[tool.outlast]\ndb = "sqlite:project"\n')
    assert settings(tmp_path).db() == "sqlite:project"
    (tmp_path / "outlast.toml").write_text('db = "sqlite:own"\n')
    assert settings(tmp_path).db() == "sqlite:own"
    assert settings(tmp_path, OUTLAST_DB="sqlite:variable").db() == "sqlite:variable"
    assert settings(tmp_path, OUTLAST_DB="sqlite:variable").db("sqlite:flag") == "sqlite:flag"


def test_an_empty_variable_is_one_that_is_not_set(tmp_path: Path) -> None:
    assert settings(tmp_path, OUTLAST_DB="").db() == DEFAULT_DB


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("postgresql://me:s3cret@host/db\n")
    found = settings(tmp_path, OUTLAST_DB_FILE=str(tmp_path / "secret"))
    assert found.db() == "postgresql://me:s3cret@host/db"


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_secret_that_cannot_be_read_is_an_error_not_the_default(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "secret").write_text(content)
    with pytest.raises(BadSetting, match="OUTLAST_DB_FILE names"):
        settings(tmp_path, OUTLAST_DB_FILE=str(tmp_path / "secret")).db()


def test_a_variable_and_its_file_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="both OUTLAST_DB and OUTLAST_DB_FILE"):
        settings(tmp_path, OUTLAST_DB="sqlite:a", OUTLAST_DB_FILE="b").db()


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("outlast.toml", "qeue = 'a'", "'qeue', which is no setting"),
        ("outlast.toml", "db = ", "outlast.toml cannot be read"),
        ("outlast.toml", "db = 7", "db in outlast.toml"),
        (
            "pyproject.toml",
            "[tool]\noutlast = 7",
            r"\[tool.outlast\] of pyproject.toml is no table",
        ),
        ("pyproject.toml", "[tool.outlast]\ntll = '3s'", "'tll', which is no setting"),
    ],
)
def test_a_file_with_a_mistake_is_named(tmp_path: Path, file: str, text: str, says: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(BadSetting, match=says):
        settings(tmp_path).db()


@pytest.mark.parametrize(
    "text",
    [
        '[tool.outlast]\ndb = "sqlite:project"',
        '[ tool . "outlast" ]\ndb = "sqlite:project"',
        "['tool'.outlast]\ndb = 'sqlite:project'",
        '[tool]\noutlast = { db = "sqlite:project" }',
        '[ "tool" ]\noutlast.db = "sqlite:project"',
        'tool.outlast.db = "sqlite:project"',
        'tool = { outlast = { db = "sqlite:project" } }',
    ],
)
def test_our_table_is_found_however_it_is_spelled(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text + "\n")
    assert settings(tmp_path).db() == "sqlite:project"


def test_a_project_that_is_not_about_us_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'mine'\ndependencies = ['outlast']\n"
    )
    assert settings(tmp_path).db() == DEFAULT_DB


def test_queues_come_as_flags_words_or_a_list(tmp_path: Path) -> None:
    assert settings(tmp_path).queues() == ("default",)
    assert settings(tmp_path).queues(("a", "b,c", "a")) == ("a", "b", "c")
    assert settings(tmp_path, OUTLAST_QUEUE="x, y").queues() == ("x", "y")
    (tmp_path / "outlast.toml").write_text("queue = ['p', 'q']")
    assert settings(tmp_path).queues() == ("p", "q")


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "99999"])
def test_a_count_that_cannot_be_names_its_source(tmp_path: Path, value: str) -> None:
    with pytest.raises(BadSetting, match="OUTLAST_SLOTS"):
        settings(tmp_path, OUTLAST_SLOTS=value).count("slots")


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("3d", 259_200_000),
        ("1h30m", 5_400_000),
        ("0.5", 500),
        (" 7s ", 7_000),
        (3, 3_000),
        (0.25, 250),
        (0, 0),
    ],
)
def test_durations_as_people_write_them(value: str | float, ms: int) -> None:
    assert duration_ms(value) == ms


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s",
        "-1s",
        "1 fortnight",
        "1s2",
        "nan",
        "inf",
        "1e3",
        "9" * 400,
        "99999d",
        -1,
        float("nan"),
        float("inf"),
        10**400,
        10**5000,
        True,
        None,
        b"3s",
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_what_is_no_duration_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(BadSetting, match=r"^--ttl: ") as refused:
        duration_ms(value, "--ttl")  # type: ignore[arg-type]
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("ms", [499, 100, 0])
def test_a_lease_too_short_for_two_beats_is_refused_with_the_reason(ms: int) -> None:
    """case R12"""
    with pytest.raises(BadSetting, match="not two beats would fit") as refused:
        lease_ttl_ms(ms / 1000)
    assert f"({ms // 3} ms)" in str(refused.value)
    assert lease_ttl_ms("500ms") == 500


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0s"),
        (9_949, "9.9s"),
        (12_000, "12s"),
        (200_000, "3m20s"),
        (7_500_000, "2h5m"),
        (93_600_000, "26h"),
        (273_600_000, "3d4h"),
        (-5_000, "-5.0s"),
    ],
)
def test_ages_as_people_read_them(ms: int, text: str) -> None:
    assert short_age(ms) == text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:a.db", "sqlite:a.db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me:pw@host/db?schema=x", "postgresql://me:***@host/db?schema=x"),
        ("postgresql://me:p@w@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?password=pw&a=b", "postgresql://host/db?password=***&a=b"),
        ("postgresql://host/db?a=b&password=pw", "postgresql://host/db?a=b&password=***"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown
