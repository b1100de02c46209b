-- What only PostgreSQL has: the clock as a function, and how rows are stored.
-- `clock_timestamp`, not `current_timestamp`: that one stands still within a transaction.
create function outlast.now_ms() returns bigint language sql volatile as
$$ select (extract(epoch from clock_timestamp()) * 1000)::bigint $$;
-- Ids are compared byte by byte: their beginnings are looked up, and they sort by time.
alter table outlast.tasks alter column id type text collate "C";
-- Room in each page and early cleaning, so that a renewal stays on its page (HOT).
alter table outlast.leases set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
alter table outlast.counters set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
alter table outlast.tasks set (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
