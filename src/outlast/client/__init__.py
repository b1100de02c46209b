"""What programs use to submit tasks and to follow them; from any thread, or from asyncio."""

from ..store.submission import Submission
from .client import Client, connect
from .handle import TaskHandle

__all__ = ["Client", "Submission", "TaskHandle", "connect"]
