-- Signals: unread until an owner's `wait.ended` names them.

-- name: insert_signal
insert into outlast.signals (id, task_id, name, payload, sent_by, sent_ms)
values (:id, :task_id, :name, :payload, :sent_by, (select outlast.now_ms()))
    on conflict do nothing
returning id

-- name: read_signals
select id, task_id, name, payload, sent_by, sent_ms
  from outlast.signals
 where task_id = :task_id
   and consumed_seq is null
 order by sent_ms, id

-- name: signal_named
select 1 as found
  from outlast.signals
 where task_id = :task_id
   and name = :name
   and consumed_seq is null
 limit 1

-- name: consume_signal
update outlast.signals
   set consumed_seq = :seq
 where id = :id
   and task_id = :task_id
   and consumed_seq is null

-- name: delete_signals
delete from outlast.signals
 where task_id = :task_id
