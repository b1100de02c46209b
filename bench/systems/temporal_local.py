"""Temporal with local activities: quicker steps, which are on disk a while after they were done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .adapter import Words, main
from .temporal import TemporalSystem

OTHERS = ("noops", "singly", "batch", "pickup", "killed", "drained", "idle", "held")


class TemporalLocalSystem(TemporalSystem):
    settings = (
        "As Temporal, each step a local activity. These are written when their workflow task ends, "
        "or after 8 s of it: another promise than that of a step that is on disk before the next."
    )
    cannot: ClassVar = dict.fromkeys(OTHERS, "as Temporal")

    def fill(self, tasks: Sequence[Words]) -> None:
        super().fill([{**words, "local": True} for words in tasks])


if __name__ == "__main__":
    main(TemporalLocalSystem)
