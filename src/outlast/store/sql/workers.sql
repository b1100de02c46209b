-- Worker processes, metric counters, queues, and the schema's version.

-- name: enlist_worker
insert into outlast.workers (
       id, host, pid, build, queues, agents, slots, ttl_ms, grace_ms, state, started_ms, beat_ms,
       loop_blocked_ms, drain_by, token)
values (:id, :host, :pid, :build, :queues, :agents, :slots, :ttl_ms, :grace_ms, 'active',
       (select outlast.now_ms()), (select outlast.now_ms()), 0, null, :token)
    on conflict (id) do update
   set state = 'active', beat_ms = excluded.beat_ms

-- name: get_worker
select {worker} from outlast.workers where id = :worker

-- name: beat_worker
update outlast.workers
   set beat_ms = (select outlast.now_ms()), loop_blocked_ms = :loop_blocked_ms
 where id = :worker
returning state, drain_by, (select outlast.now_ms()) as now_ms

-- name: drain_workers
update outlast.workers
   set state = 'draining', drain_by = :by
 where state <> 'retired'
   and (cast(:worker as text) is null or id = :worker)
   and (cast(:build as text) is null or build = :build)
returning id

-- name: set_worker_state
update outlast.workers
   set state = :state, beat_ms = (select outlast.now_ms())
 where id = :worker

-- name: all_workers
select {worker} from outlast.workers order by started_ms desc limit :limit

-- name: workers_of_tasks
select {worker}
  from outlast.workers worker
 where worker.id in (select lease.worker from outlast.leases lease
                      where lease.task_id in (select key from json_each(:tasks)))

-- name: count_workers
select state, queues, loop_blocked_ms, beat_ms, ttl_ms from outlast.workers where state <> 'retired'

-- name: gone_workers
-- Silent for long and holding nothing: their rows may go.
select id
  from outlast.workers worker
 where worker.beat_ms < :before_ms
   and not exists (select 1 from outlast.leases lease where lease.worker = worker.id)
 limit :limit

-- name: delete_worker
delete from outlast.workers where id = :worker

-- name: add_counter
insert into outlast.counters (name, labels, worker, value)
values (:name, :labels, :worker, :by)
    on conflict (name, labels, worker) do update
   set value = outlast.counters.value + excluded.value

-- name: sum_counters
select name, labels, cast(sum(value) as bigint) as value
  from outlast.counters
 group by name, labels
 order by name, labels

-- name: take_counters
delete from outlast.counters
 where worker = :worker
returning name, labels, value

-- name: pause_queue
insert into outlast.queues (name, paused_by, paused_why, paused_ms)
values (:name, :by, :why, (select outlast.now_ms()))
    on conflict do nothing

-- name: unpause_queue
delete from outlast.queues where name = :name

-- name: paused_queues
select name from outlast.queues order by name

-- name: read_clock
select outlast.now_ms() as now_ms

-- name: read_version
select max(version) as version from outlast.schema
