"""What programs use to submit tasks and to follow them; from any thread, or from asyncio."""

from .client import Client, Submission, connect
from .handle import TaskHandle

__all__ = ["Client", "Submission", "TaskHandle", "connect"]
