"""The first minute: real workers are killed, drained and frozen, and the evidence is kept."""

from .story import run

__all__ = ["run"]
