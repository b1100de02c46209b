-- Leases: who owns what, until when. Safety is the chain's; these rows only say when an owner may
-- be declared dead.

-- name: insert_lease
insert into outlast.leases (
       task_id, grant_digest, epoch, worker, token, ttl_ms, granted_ms, expires_ms, spared,
       beat_ms, progress_ms, doing)
values (:task_id, :grant, :epoch, :worker, :token, :ttl_ms, :granted_ms, :expires_ms, 0,
       :granted_ms, :granted_ms, null)

-- name: delete_lease
delete from outlast.leases
 where task_id = :task_id
   and epoch = :epoch

-- name: renew
-- All leases of a worker in one statement. A row that somebody has locked is skipped: ask again.
-- The time is read after the locks, and lapsed leases are renewed all the same: while nobody has
-- written `lease.expired`, the chain still is the owner's.
with asked as materialized (
select key as id,
       value ->> 'grant' as digest,
       cast(value ->> 'progress_ms_ago' as bigint) as progress_ms_ago,
       value ->> 'doing' as now_doing
  from json_each(:renewals)),
held as materialized (
select lease.task_id as held_id, asked.digest, asked.progress_ms_ago, asked.now_doing
  from outlast.leases lease, asked
 where lease.task_id = asked.id
   and lease.grant_digest = asked.digest
 order by lease.task_id
 {lock_skipping})
update outlast.leases as lease
   set expires_ms = (select outlast.now_ms()) + lease.ttl_ms,
       beat_ms = (select outlast.now_ms()),
       progress_ms = (select outlast.now_ms()) - held.progress_ms_ago,
       spared = 0,
       doing = held.now_doing
  from held
 where lease.task_id = held.held_id
   and lease.grant_digest = held.digest
returning task_id, expires_ms

-- name: held_leases
-- Of the leases asked for, those that are there, and what waits for their owners.
-- Subqueries, not a join: that became a scan of all tasks on tables never analysed.
select lease.task_id, lease.grant_digest as "grant", lease.expires_ms,
       (select cancel_by from outlast.tasks where id = lease.task_id) as cancel_by,
       (select cancel_why from outlast.tasks where id = lease.task_id) as cancel_why,
       (select cancel_ms from outlast.tasks where id = lease.task_id) as cancel_ms,
       (select count(*) from outlast.signals signal
         where signal.task_id = lease.task_id and signal.consumed_seq is null) as signals
  from outlast.leases lease
 where lease.task_id in (select key from json_each(:renewals))

-- name: lapsed_leases
select task_id, grant_digest as "grant", (select outlast.now_ms()) as now_ms
  from outlast.leases
 where expires_ms < (select outlast.now_ms())
 order by expires_ms
 limit :limit

-- name: get_lease
select {lease}
  from outlast.leases
 where task_id = :task_id

-- name: lock_lease
-- The clock is read after the row is locked: a renewal may have been waited for.
select {lease}
  from outlast.leases
 where task_id = :task_id
 {lock}

-- name: lock_lapsed_lease
-- Asked again under the lock: the list of the lapsed is stale by now.
with locked as materialized (
select task_id, grant_digest, epoch, worker, token, ttl_ms, granted_ms, expires_ms, spared,
       beat_ms, progress_ms, doing
  from outlast.leases
 where task_id = :task_id
   and grant_digest = :grant
 {lock})
select {lease}
  from locked
 where expires_ms < (select outlast.now_ms())

-- name: spare_unsure
-- All at once, for a gap in a reaper's watch: leases whose owners may have been kept away by it. One
-- by one, the last of many would have been declared dead before its turn.
with unsure as materialized (
select task_id as unsure_id
  from outlast.leases
 where spared = 0
   and expires_ms < (select outlast.now_ms())
   and ttl_ms / 2 < :gap_ms
   and ttl_ms / 2 > (select outlast.now_ms()) - :gap_end_ms
 order by task_id
 {lock_skipping})
update outlast.leases
   set expires_ms = (select outlast.now_ms()) + ttl_ms, spared = 1
 where task_id in (select unsure_id from unsure)
returning task_id

-- name: leases_by_token
select {lease}
  from outlast.leases
 where worker = :worker
   and token = :token
 order by task_id

-- name: leases_of_worker
select {lease}
  from outlast.leases
 where worker = :worker
 order by task_id

-- name: leases_of_tasks
select {lease}
  from outlast.leases
 where task_id in (select key from json_each(:tasks))

-- name: measure_leases
select task.queue,
       min(lease.expires_ms) as expires_ms,
       min(lease.beat_ms) as beat_ms,
       min(lease.progress_ms) as progress_ms,
       max(lease.ttl_ms) as ttl_ms
  from outlast.leases lease
  join outlast.tasks task on task.id = lease.task_id
 group by task.queue

-- name: leases_without_task
-- `running` without a lease, or a lease without `running`: impossible, so somebody must look.
select task.id as task_id, task.state, lease.epoch
  from outlast.tasks task
  left join outlast.leases lease on lease.task_id = task.id
 where task.finished_ms is null
   and (task.state = 'running') <> (lease.task_id is not null)
 union all
select lease.task_id, coalesce(task.state, 'no task'), lease.epoch
  from outlast.leases lease
  left join outlast.tasks task on task.id = lease.task_id
 where task.id is null
    or task.finished_ms is not null
