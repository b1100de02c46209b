-- Webhooks, and what is still to be told to them.

-- name: insert_webhook
insert into outlast.webhooks (id, url, news, secret, created_by, created_ms)
values (:id, :url, :news, :secret, :by, (select outlast.now_ms()))
    on conflict do nothing

-- name: all_webhooks
select id, url, news, created_by, created_ms,
       (select count(*) from outlast.deliveries where webhook = webhooks.id) as behind,
       (select max(error) from outlast.deliveries where webhook = webhooks.id) as error
  from outlast.webhooks
 order by created_ms, id

-- name: delete_webhook
delete from outlast.webhooks where id = :webhook
returning id

-- name: delete_deliveries_to
delete from outlast.deliveries where webhook = :webhook

-- name: put_news
-- For whoever wants it; nothing where nobody does.
insert into outlast.deliveries (webhook, task_id, seq, news, at_ms, tries, due_ms)
select webhook.id, :task_id, :seq, :news, :at_ms, 0, (select outlast.now_ms())
  from outlast.webhooks webhook
 where webhook.news like '%' || cast(:news as text) || '%'
    on conflict do nothing

-- name: take_deliveries
-- Theirs for a while who take them: another server tells what this one has not.
with picked as materialized (
select webhook as picked_webhook, task_id as picked_task, seq as picked_seq
  from outlast.deliveries
 where webhook = :webhook
   and due_ms <= (select outlast.now_ms())
 order by due_ms, at_ms
 limit :limit
 {lock_skipping})
update outlast.deliveries
   set due_ms = (select outlast.now_ms()) + :for_ms, tries = tries + 1
 where (webhook, task_id, seq) in (select picked_webhook, picked_task, picked_seq from picked)
returning webhook, task_id, seq, news, at_ms, tries

-- name: webhook_of
select url, secret from outlast.webhooks where id = :webhook

-- name: delivered
delete from outlast.deliveries
 where webhook = :webhook and task_id = :task_id and seq = :seq

-- name: not_delivered
update outlast.deliveries
   set due_ms = (select outlast.now_ms()) + :after_ms, error = :error
 where webhook = :webhook and task_id = :task_id and seq = :seq
