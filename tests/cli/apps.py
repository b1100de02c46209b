"""Modules that `outlast worker` is asked to load."""

from outlast.worker.app import App

app = App()
number = 7


@app.agent
async def agent(ctx: object, n: int) -> int:
    return n
