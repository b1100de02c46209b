-- The effect ledger: one row an idempotency key.

-- name: put_intent
-- A new intent, or another try of one's own; never another task's row.
insert into outlast.effects (
       key, task_id, name, tool, fingerprint, shared, state, tries, intent_seq, outcome_seq,
       result, error, observed, intended_ms, settled_ms, doubt_ms)
values (:key, :task_id, :name, :tool, :fingerprint, :shared, 'intended', :tries, :intent_seq,
       null, null, null, null, :intended_ms, null, :doubt_ms)
    on conflict (key) do update
   set name = excluded.name, tool = excluded.tool, fingerprint = excluded.fingerprint,
       state = excluded.state, tries = excluded.tries, intent_seq = excluded.intent_seq,
       outcome_seq = null, result = null, error = null, intended_ms = excluded.intended_ms,
       settled_ms = null, doubt_ms = excluded.doubt_ms
 where outlast.effects.task_id = excluded.task_id
   and outlast.effects.shared = 0
returning key

-- name: claim_key
-- Make the row of a shared key, if nobody has; who loses the race waits here for the winner.
insert into outlast.effects (
       key, task_id, name, tool, fingerprint, shared, state, tries, intent_seq, outcome_seq,
       result, error, observed, intended_ms, settled_ms, doubt_ms)
values (:key, :task_id, :name, :tool, :fingerprint, :shared, 'intended', :tries, :intent_seq,
       null, null, null, null, :intended_ms, null, null)
    on conflict do nothing
returning key

-- name: lock_effect
select {effect} from outlast.effects where key = :key {lock}

-- name: take_key
-- Point a shared key's row at the task whose intent is now the newest.
update outlast.effects
   set task_id = :task_id, name = :name, tool = :tool, state = 'intended', tries = :tries,
       intent_seq = :intent_seq, outcome_seq = null, result = null, error = null,
       intended_ms = :intended_ms, settled_ms = null, doubt_ms = :doubt_ms
 where key = :key

-- name: put_outcome
update outlast.effects
   set state = :state, outcome_seq = :outcome_seq, result = :result, error = :error,
       settled_ms = :settled_ms
 where key = :key
   and task_id = :task_id

-- name: put_observed
update outlast.effects
   set observed = :observed
 where key = :key

-- name: get_effect
select {effect} from outlast.effects where key = :key

-- name: open_intents
select {effect}
  from outlast.effects
 where task_id = :task_id
   and state = 'intended'
 order by intent_seq

-- name: effects_of_task
select {effect}
  from outlast.effects
 where task_id = :task_id
 order by intent_seq desc

-- name: effects_in_doubt
-- Intended and no living owner at it, or unknown.
select {effect}
  from outlast.effects effect
 where (state = 'intended' or state = 'unknown')
   and (state = 'unknown'
        or not exists (select 1 from outlast.leases lease
                        where lease.task_id = effect.task_id
                          and lease.expires_ms >= (select outlast.now_ms())))
   and (cast(:task_id as text) is null or task_id = :task_id)
   and (cast(:key as text) is null or key = :key)
 order by intended_ms desc
 limit :limit

-- name: find_effects
select {effect}
  from outlast.effects
 where (cast(:task_id as text) is null or task_id = :task_id)
   and (:any_state = 1 or state in (select key from json_each(:states)))
 order by intended_ms desc, key
 limit :limit

-- name: effects_of_tasks
select {effect}
  from outlast.effects
 where task_id in (select key from json_each(:tasks))
   and (:any_state = 1 or state in (select key from json_each(:states)))
 order by task_id, intent_seq
 limit :limit

-- name: count_effects
select task_id, state, count(*) as count
  from outlast.effects
 where task_id in (select key from json_each(:tasks))
 group by task_id, state

-- name: count_unknown
select tool, count(*) as count, min(intended_ms) as since_ms
  from outlast.effects
 where state = 'unknown'
 group by tool

-- name: known_tools
-- From one to the next along the index: as many looks as there are tools, not effects.
with recursive tools (tool) as (
select min(tool) from outlast.effects
 union all
select (select min(effect.tool) from outlast.effects effect where effect.tool > tools.tool)
  from tools
 where tools.tool is not null)
select tool from tools where tool is not null

-- name: delete_effects
-- A shared key outlives its task: pruned, it would let the same act happen again.
delete from outlast.effects
 where task_id = :task_id
   and shared = 0

-- name: observe
insert into outlast.observations (task_id, epoch, worker, kind, key, count, detail, first_ms, last_ms)
values (:task_id, :epoch, :worker, :kind, :key, :count, :detail,
       (select outlast.now_ms()), (select outlast.now_ms()))
    on conflict (task_id, epoch, worker, kind, key) do update
   set count = outlast.observations.count + excluded.count, detail = excluded.detail,
       last_ms = excluded.last_ms

-- name: read_observations
select task_id, epoch, worker, kind, key, count, detail, first_ms, last_ms
  from outlast.observations
 where (cast(:task_id as text) is null or task_id = :task_id)
 order by last_ms desc
 limit :limit

-- name: delete_observations
delete from outlast.observations
 where task_id = :task_id
