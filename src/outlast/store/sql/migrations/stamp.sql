-- The end of every step.
insert into outlast.schema (version, applied_ms) values ({version}, outlast.now_ms());
