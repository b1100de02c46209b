-- The log. The fence is here: quote the last event as its holder, or write nothing.
-- Every statement but one names one task_id, so that the table may be spread over machines by it;
-- `append_all` is carried out as so many `append`s where a database cannot do it.

-- name: append
insert into outlast.events (task_id, seq, holder, kind, body, at_ms, digest)
select last.task_id, last.seq + 1, :holder, :kind, :body, :at_ms, :digest
  from outlast.events last
 where last.task_id = :task_id
   and last.seq = :quoted_seq
   and last.digest = :quoted
   and last.holder = :epoch
    on conflict do nothing
returning seq

-- name: append_all
-- `append` for several tasks, one entry of each. By a scalar subquery: a join with the log becomes a
-- hash join on a table that is young or was never analysed, and reads all of it.
insert into outlast.events (task_id, seq, holder, kind, body, at_ms, digest)
select offer.task_id, offer.quoted_seq + 1, offer.holder, offer.kind, offer.body, offer.at_ms, offer.digest
  from {offers}
 where offer.epoch = (
       select last.holder
         from outlast.events last
        where last.task_id = offer.task_id
          and last.seq = offer.quoted_seq
          and last.digest = offer.quoted)
 order by offer.task_id
    on conflict do nothing
returning task_id

-- name: first_events
-- Not of a task that was not born, since another has its key.
insert into outlast.events (task_id, seq, holder, kind, body, at_ms, digest)
select event.task_id, event.seq, event.holder, event.kind, event.body, event.at_ms, event.digest
  from {events}
 where event.task_id = (select task.id from outlast.tasks task where task.id = event.task_id)
    on conflict do nothing
returning task_id

-- name: standing_events
-- What stands at the quoted place, at the one after it, and at the last of the offer.
select {event}
  from outlast.events
 where task_id = :task_id
   and seq in (:quoted_seq, :quoted_seq + 1, :last_seq)
 order by seq

-- name: read_events
select {event}
  from outlast.events
 where task_id = :task_id
   and seq > :after
 order by seq
 limit :limit

-- name: last_event
select {event}
  from outlast.events
 where task_id = :task_id
 order by seq desc
 limit 1

-- name: last_event_of_kind
select {event}
  from outlast.events
 where task_id = :task_id
   and kind = :kind
 order by seq desc
 limit 1

-- name: grant_of
-- To whom an epoch was granted.
select {event}
  from outlast.events
 where task_id = :task_id
   and kind = 'lease.granted'
   and holder = :epoch
 limit 1

-- name: has_result_since
-- Whether the lease that began at :after has had a result: then its end does not count in a row.
select 1 as found
  from outlast.events
 where task_id = :task_id
   and seq > :after
   and kind in ('step.done', 'effect.applied', 'wait.ended', 'checkpoint')
 limit 1

-- name: lease_ended_after
-- When the lease ended under which event :after was written.
select at_ms
  from outlast.events
 where task_id = :task_id
   and seq > :after
   and holder = 0
 order by seq
 limit 1

-- name: delete_events
delete from outlast.events
 where task_id = :task_id
