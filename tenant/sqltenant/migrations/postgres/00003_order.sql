-- What the common tables need beyond the common SQL: made once, after them.

-- Subjects stand in the order of their bytes, as in SQLite and in Go, whatever the
-- locale of the database: a beginning of a name is a range of them.
ALTER TABLE accounts
  ALTER COLUMN subject_key TYPE TEXT COLLATE "C",
  ALTER COLUMN subject     TYPE TEXT COLLATE "C";
ALTER TABLE account_tiers
  ALTER COLUMN subject_key TYPE TEXT COLLATE "C",
  ALTER COLUMN subject     TYPE TEXT COLLATE "C";
ALTER TABLE quota_overrides
  ALTER COLUMN subject_key TYPE TEXT COLLATE "C",
  ALTER COLUMN subject     TYPE TEXT COLLATE "C";
ALTER TABLE account_top_ups
  ALTER COLUMN subject_key TYPE TEXT COLLATE "C",
  ALTER COLUMN subject     TYPE TEXT COLLATE "C";
ALTER TABLE documents
  ALTER COLUMN name TYPE TEXT COLLATE "C";

-- The integer primary key of SQLite numbers rows by itself.
ALTER TABLE rate_limit_rules
  ALTER COLUMN id TYPE BIGINT,
  ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY,
  ALTER COLUMN created_at SET DEFAULT (extract(epoch FROM now()) * 1000000)::BIGINT,
  ALTER COLUMN updated_at SET DEFAULT (extract(epoch FROM now()) * 1000000)::BIGINT;

-- Nodes hear at once of rows that somebody wrote by hand.
CREATE FUNCTION rate_limit_rules_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('headgate_accounts', 'rule_rows');
  RETURN NULL;
END
$$;
CREATE TRIGGER rate_limit_rules_changed
  AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON rate_limit_rules
  FOR EACH STATEMENT EXECUTE FUNCTION rate_limit_rules_changed();
