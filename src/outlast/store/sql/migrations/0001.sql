-- The first schema. Frozen once released: changes go into the next number.

create table outlast.schema (
    version bigint not null primary key,
    applied_ms bigint not null
);

-- A task; changes only when the task changes hands or state.
create table outlast.tasks (
    id text not null primary key,
    queue text not null,
    agent text not null,
    input text not null,
    key text unique,
    labels text not null,
    priority bigint not null,
    max_resumes bigint not null,
    max_expiries bigint not null,
    created_ms bigint not null,
    state text not null,
    reason text not null,
    due_ms bigint,
    waiting_for text,
    doubts text,
    epoch bigint not null,
    failures bigint not null,
    resumes bigint not null,
    expiries bigint not null,
    handoffs bigint not null,
    result text,
    error text,
    head_seq bigint not null,
    head_digest text not null,
    head_ms bigint not null,
    started_ms bigint,
    finished_ms bigint,
    cancel_by text,
    cancel_why text,
    cancel_ms bigint
);
create index tasks_ready on outlast.tasks (queue, priority desc, due_ms, id) where state = 'ready';
create index tasks_suspects on outlast.tasks (queue, due_ms) where state = 'ready' and resumes >= 3;
-- For the next planned task alone, which asks in just these words. Could a claim go by it, PostgreSQL
-- would read and sort a whole backlog of which its statistics do not know yet, to find the first few.
create index tasks_due on outlast.tasks (due_ms) where state || '' = 'ready';
create index tasks_timers on outlast.tasks (due_ms) where state = 'waiting';
create index tasks_open on outlast.tasks (state, queue, id) where finished_ms is null;
create index tasks_finished on outlast.tasks (finished_ms) where finished_ms is not null;

-- A held lease: "who owns what". No index on a time, so that renewals stay in place.
create table outlast.leases (
    task_id text not null primary key,
    grant_digest text not null,
    epoch bigint not null,
    worker text not null,
    token text not null,
    ttl_ms bigint not null,
    granted_ms bigint not null,
    expires_ms bigint not null,
    spared bigint not null,
    beat_ms bigint not null,
    progress_ms bigint not null,
    doing text
);
create index leases_worker on outlast.leases (worker);

-- A line of a task's log. Insert only.
create table outlast.events (
    task_id text not null,
    seq bigint not null,
    holder bigint not null,
    kind text not null,
    body text not null,
    at_ms bigint not null,
    digest text not null,
    primary key (task_id, seq)
);

-- An act on the outside world, by idempotency key.
create table outlast.effects (
    key text not null primary key,
    task_id text not null,
    name text not null,
    tool text not null,
    fingerprint text not null,
    shared bigint not null,
    state text not null,
    tries bigint not null,
    intent_seq bigint not null,
    outcome_seq bigint,
    result text,
    error text,
    observed text,
    intended_ms bigint not null,
    settled_ms bigint,
    doubt_ms bigint
);
create index effects_task on outlast.effects (task_id);
create index effects_tool on outlast.effects (tool);
create index effects_doubt on outlast.effects (state) where state = 'intended' or state = 'unknown';

-- What came too late or was refused: one row a task, epoch, worker and kind (and key), with a count.
create table outlast.observations (
    task_id text not null,
    epoch bigint not null,
    worker text not null,
    kind text not null,
    key text not null,
    count bigint not null,
    detail text not null,
    first_ms bigint not null,
    last_ms bigint not null,
    primary key (task_id, epoch, worker, kind, key)
);

-- A message to a task. Once an owner's `wait.ended` has named it, it stays as a record that it came,
-- so that the same message sent again is nothing new.
create table outlast.signals (
    id text not null primary key,
    task_id text not null,
    name text not null,
    payload text not null,
    sent_by text not null,
    sent_ms bigint not null,
    consumed_seq bigint
);
create index signals_unread on outlast.signals (task_id, name) where consumed_seq is null;

-- A worker process; the id is new at every start.
create table outlast.workers (
    id text not null primary key,
    host text not null,
    pid bigint not null,
    build text not null,
    queues text not null,
    agents text not null,
    slots bigint not null,
    ttl_ms bigint not null,
    grace_ms bigint not null,
    state text not null,
    started_ms bigint not null,
    beat_ms bigint not null,
    loop_blocked_ms bigint not null,
    drain_by text,
    token text not null
);

-- Metric counters: a row a worker, summed when read; '' holds what gone workers counted.
create table outlast.counters (
    name text not null,
    labels text not null,
    worker text not null,
    value bigint not null,
    primary key (name, labels, worker)
);

-- A paused queue.
create table outlast.queues (
    name text not null primary key,
    paused_by text not null,
    paused_why text not null,
    paused_ms bigint not null
);

create table outlast.tokens (
    id text not null primary key,
    name text not null,
    role text not null,
    digest text not null,
    created_by text not null,
    created_ms bigint not null,
    expires_ms bigint,
    revoked_by text,
    revoked_ms bigint
);

create table outlast.webhooks (
    id text not null primary key,
    url text not null,
    news text not null,
    secret text not null,
    created_by text not null,
    created_ms bigint not null
);

create table outlast.deliveries (
    webhook text not null,
    task_id text not null,
    seq bigint not null,
    news text not null,
    at_ms bigint not null,
    tries bigint not null,
    due_ms bigint not null,
    error text,
    primary key (webhook, task_id, seq)
);
create index deliveries_due on outlast.deliveries (webhook, due_ms);
