-- API tokens: who may ask a server, and for what.

-- name: insert_token
insert into outlast.tokens (id, name, role, digest, created_by, created_ms, expires_ms)
values (:id, :name, :role, :digest, :by, (select outlast.now_ms()),
       (select outlast.now_ms()) + :lasts_ms)
    on conflict do nothing

-- name: get_token
select {token} from outlast.tokens where id = :token_id

-- name: all_tokens
select {token} from outlast.tokens order by created_ms desc, id limit :limit

-- name: revoke_token
update outlast.tokens
   set revoked_by = :by, revoked_ms = (select outlast.now_ms())
 where id = :token_id
   and revoked_ms is null
