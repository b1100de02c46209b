"""LangGraph: a graph whose node is one step, its checkpoints in PostgreSQL. It has no worker."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypedDict

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from .adapter import System, Words, main, mark, reached, step

NO_WORKER = "has no queue and no worker"
OF_A_WORKER = ("noops", "singly", "batch", "pickup", "killed", "drained", "idle", "held")
ADD = "insert into threads (words) values (%s)"


class State(TypedDict):
    steps: int
    ms: int
    done: int


def node(state: State) -> dict[str, int]:
    return {"done": step(state["done"], state["ms"]) + 1}


def more(state: State) -> str:
    return "step" if state["done"] < state["steps"] else END


class LangGraphSystem(System):
    packages = ("langgraph", "langgraph-checkpoint-postgres", "psycopg")
    settings = (
        "PostgresSaver with a pool of a connection a thread, durability='sync', a superstep for "
        "each step. The library has no worker: threads of the adapter each invoke one graph, from "
        "a list. A checkpoint is the state of the graph, so a replay reads one, however many "
        "steps there were."
    )
    cannot: ClassVar = dict.fromkeys(OF_A_WORKER, NO_WORKER)

    def prepare(self) -> None:
        with PostgresSaver.from_conn_string(self.url) as saver:
            saver.setup()
        with psycopg.connect(self.url, autocommit=True) as store:
            store.execute(
                "create table threads (id bigint generated always as identity primary key,"
                " words jsonb not null, done boolean not null default false)"
            )

    def submit_many(self, tasks: Sequence[Words]) -> None:
        with psycopg.connect(self.url) as store:
            store.cursor().executemany(ADD, [[Jsonb(words)] for words in tasks])

    def work(self, slots: int, lease_s: float) -> None:
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool_of = functools.partial(ConnectionPool, self.url, min_size=slots, max_size=slots)
        with pool_of(kwargs=options) as pool, ThreadPoolExecutor(slots) as threads:
            pool.wait()
            graph = compiled(PostgresSaver(pool))
            with psycopg.connect(self.url) as store:
                rows = store.execute("select id, words from threads where not done").fetchall()
            mark("ready")
            list(threads.map(lambda row: run(graph, *row), rows))


def compiled(saver: PostgresSaver) -> Any:
    graph = StateGraph(State)
    graph.add_node("step", node)
    graph.add_conditional_edges(START, more)
    graph.add_conditional_edges("step", more)
    return graph.compile(checkpointer=saver)


def run(graph: Any, thread: int, words: Words) -> None:
    mark("claimed", words["number"])
    config = {
        "configurable": {"thread_id": str(thread)},
        "recursion_limit": words["steps"] + 5,
    }
    begun = graph.get_state(config).created_at is not None
    mark("began", words["number"])
    first = {"steps": words["steps"], "ms": words["ms"], "done": 0}
    graph.invoke(None if begun else first, config, durability="sync")
    reached(words)


if __name__ == "__main__":
    main(LangGraphSystem)
