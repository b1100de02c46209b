-- Signals: kept until an owner's `wait.ended` names them.

-- name: insert_signal
insert into outlast.signals (id, task_id, name, payload, sent_by, sent_ms)
values (:id, :task_id, :name, :payload, :sent_by, (select outlast.now_ms()))
    on conflict do nothing
returning id

-- name: read_signals
select id, task_id, name, payload, sent_by, sent_ms
  from outlast.signals
 where task_id = :task_id
 order by sent_ms, id

-- name: signal_named
select 1 as found
  from outlast.signals
 where task_id = :task_id
   and name = :name
 limit 1

-- name: consume_signal
delete from outlast.signals
 where id = :id
   and task_id = :task_id

-- name: delete_signals
delete from outlast.signals
 where task_id = :task_id
