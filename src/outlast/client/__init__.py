"""What programs use to submit tasks and to follow them; from any thread, or from asyncio."""

from .client import Client, connect
from .handle import TaskHandle
from .submission import Submission

__all__ = ["Client", "Submission", "TaskHandle", "connect"]
