-- Tasks. Whatever takes a task out of `running`, and every signal, locks the row first and then
-- looks in a new statement: one that waited for a lock cannot see what was committed meanwhile.

-- name: insert_tasks
insert into outlast.tasks (
       id, queue, agent, input, key, labels, priority, max_resumes, max_expiries, created_ms,
       state, reason, due_ms, waiting_for, doubts, epoch, failures, resumes, expiries, handoffs,
       result, error, head_seq, head_digest, head_ms, started_ms, finished_ms)
select id, queue, agent, input, key, labels, priority, max_resumes, max_expiries, created_ms,
       state, reason, due_ms, waiting_for, doubts, epoch, failures, resumes, expiries, handoffs,
       result, error, head_seq, head_digest, head_ms, started_ms, finished_ms
  from {tasks}
 where true
    on conflict do nothing
returning id

-- name: update_task
-- The row is the fold of the log: this writes what `lifecycle.after` returned.
update outlast.tasks
   set max_resumes = :max_resumes, max_expiries = :max_expiries, state = :state,
       reason = :reason, due_ms = :due_ms, waiting_for = :waiting_for, doubts = :doubts,
       epoch = :epoch, failures = :failures, resumes = :resumes, expiries = :expiries,
       handoffs = :handoffs, result = :result, error = :error, head_seq = :head_seq,
       head_digest = :head_digest, head_ms = :head_ms, started_ms = :started_ms, finished_ms = :finished_ms,
       cancel_by = :cancel_by, cancel_why = :cancel_why, cancel_ms = :cancel_ms
 where id = :id

-- name: lock_task
select {task} from outlast.tasks where id = :task_id {lock}

-- name: get_task
select {task} from outlast.tasks where id = :task_id

-- name: get_task_by_key
select {task} from outlast.tasks where key = :key

-- name: get_tasks_by_prefix
select {task}
  from outlast.tasks
 where id >= :low
   and id < :high
 order by id
 limit 2

-- name: pick_ready
-- The ready tasks of one queue that this worker may be given, best first; others' picks are skipped.
-- `is true` keeps the agents a filter: pulled up into a join, it read and sorted the whole backlog.
select {task}
  from outlast.tasks
 where state = 'ready'
   and queue = :queue
   and due_ms <= (select outlast.now_ms())
   and (agent in (select key from json_each(:agents))) is true
   and (resumes < :suspect or :held = 0)
   and id not in (select key from json_each(:except_ids))
   and not exists (select 1 from outlast.queues paused where paused.name = :queue)
 order by priority desc, due_ms, id
 limit :room
 {lock_skipping}

-- name: ask_cancel
update outlast.tasks
   set cancel_by = :by, cancel_why = :why, cancel_ms = (select outlast.now_ms())
 where id = :task_id
   and cancel_ms is null

-- name: wake_task
-- A wake is no event: the task may be claimed; its owner will say on the log why its wait ended.
update outlast.tasks
   set state = 'ready', reason = 'woken', due_ms = (select outlast.now_ms())
 where id = :task_id
   and state = 'waiting'

-- name: wake_timers
with due as materialized (
select id
  from outlast.tasks
 where state = 'waiting'
   and due_ms <= (select outlast.now_ms())
 order by id
 limit :limit
 {lock_skipping})
update outlast.tasks
   set state = 'ready', reason = 'woken'
 where id in (select id from due)
   and state = 'waiting'
returning id

-- name: wake_signalled
-- Whoever sends a signal wakes the task in the same transaction; this is for what was missed.
with missed as materialized (
select id
  from outlast.tasks
 where state = 'waiting'
   and id in (select signal.task_id from outlast.signals signal
               where signal.consumed_seq is null and signal.name = waiting_for)
 order by id
 limit :limit
 {lock_skipping})
update outlast.tasks
   set state = 'ready', reason = 'woken', due_ms = (select outlast.now_ms())
 where id in (select id from missed)
   and state = 'waiting'
returning id

-- name: look_gate
-- Cancel requests and unread signals, read after the task has been locked.
select task.id, task.cancel_by, task.cancel_why, task.cancel_ms, (select outlast.now_ms()) as now_ms
  from outlast.tasks task
 where task.id = :task_id

-- name: look
-- The one statement of an idle worker. A scalar subquery a queue, so that each goes by its index;
-- the number of resumes stands in the text (limits.SUSPECT_RESUMES) for the sake of a partial one.
select (select outlast.now_ms()) as now_ms,
       (select cast(coalesce(sum(
               (select count(*)
                  from (select 1
                          from outlast.tasks
                         where state = 'ready'
                           and queue = named.key
                           and due_ms <= (select outlast.now_ms())
                           and (agent in (select key from json_each(:agents))) is true
                           and not exists (select 1 from outlast.queues paused where paused.name = named.key)
                         order by priority desc, due_ms, id
                         limit :limit) due)), 0) as bigint)
          from json_each(:queues) named) as ready,
       (select min(
               (select min(due_ms)
                  from outlast.tasks
                 where state = 'ready'
                   and queue = named.key
                   and resumes >= 3
                   and due_ms <= (select outlast.now_ms())
                   and (agent in (select key from json_each(:agents))) is true))
          from json_each(:queues) named) as suspect_due_ms,
       (select count(*) from outlast.leases where expires_ms < (select outlast.now_ms())) as lapsed,
       (select count(*) from (select 1 from outlast.tasks
         where state = 'waiting' and due_ms <= (select outlast.now_ms()) limit 1) timers) as timers,
       (select min(due_ms) from outlast.tasks where state = 'waiting') as next_timer_ms,
       (select min(due_ms) from outlast.tasks
         where state || '' = 'ready' and due_ms > (select outlast.now_ms())) as next_task_ms,
       (select count(*) from (select 1 from outlast.tasks
         where state = 'review' and finished_ms is null and reason = 'effect_unknown' limit 1) reviews) as reviews,
       (select count(*) from outlast.workers where state = 'active') as workers

-- name: reviews
-- Tasks in review for a doubt; :after pages.
select {task}
  from outlast.tasks
 where state = 'review'
   and finished_ms is null
   and reason = 'effect_unknown'
   and id > :after
 order by id
 limit :limit

-- name: find_open_tasks
select {task}
  from outlast.tasks
 where finished_ms is null
   and state in (select key from json_each(:states))
   and (cast(:queue as text) is null or queue = :queue)
   and (cast(:agent as text) is null or agent = :agent)
   and (cast(:key as text) is null or key = :key)
   and (cast(:since_ms as bigint) is null or created_ms >= :since_ms)
   and (cast(:label as text) is null or labels like :label escape '!')
   and (cast(:text as text) is null or lower(id || ' ' || agent || ' ' || coalesce(key, '') || ' ' || input || ' ' || labels) like :text escape '!')
   and (cast(:after as text) is null or id < :after)
 order by id desc
 limit :limit

-- name: find_tasks
-- A plain comparison, so that a page begins where the last one ended and not at the newest task
-- again; ids are hexadecimal, 'z' is above them in every collation.
select {task}
  from outlast.tasks
 where (:any_state = 1 or state in (select key from json_each(:states)))
   and (cast(:queue as text) is null or queue = :queue)
   and (cast(:agent as text) is null or agent = :agent)
   and (cast(:key as text) is null or key = :key)
   and (cast(:since_ms as bigint) is null or created_ms >= :since_ms)
   and (cast(:label as text) is null or labels like :label escape '!')
   and (cast(:text as text) is null or lower(id || ' ' || agent || ' ' || coalesce(key, '') || ' ' || input || ' ' || labels) like :text escape '!')
   and id < coalesce(cast(:after as text), 'z')
 order by id desc
 limit :limit

-- name: count_tasks
select queue, state, count(*) as count
  from outlast.tasks
 where finished_ms is null
 group by queue, state

-- name: prunable_tasks
select id
  from outlast.tasks
 where finished_ms is not null
   and finished_ms < :before_ms
 order by finished_ms
 limit :limit
 {lock_skipping}

-- name: count_prunable
select count(*) as tasks,
       (select coalesce(sum(head_seq), 0) from outlast.tasks
         where finished_ms is not null and finished_ms < :before_ms) as events
  from outlast.tasks
 where finished_ms is not null
   and finished_ms < :before_ms

-- name: delete_task
delete from outlast.tasks
 where id = :task_id
   and finished_ms is not null

-- name: hint
-- Commits that notify queue up behind each other, so only those do that make a task ready.
{hint}
