-- +goose Up

-- A process of before 00005 would take the instants of PostgreSQL for none, and so leave
-- out tiers and overrides of every account that it reads. It begins each look and each
-- change with this table: without it, it decides by what it has read and writes nothing.
ALTER TABLE tenant_state RENAME TO tenant_head;

-- +goose Down
ALTER TABLE tenant_head RENAME TO tenant_state;
