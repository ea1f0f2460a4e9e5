-- Instants as users of PostgreSQL write and read them. An effective_at of 1970 means
-- always, an expires_at of NULL never; a created_at or updated_at of 1970 is not known.

-- Rows whose instants no text of RFC 3339 can show were left out of what is in force.
-- They are kept, and begin on the last day that there is.
UPDATE account_tiers t SET effective_at = 253402300799999999 - b.n, expires_at = NULL
  FROM (SELECT ctid, row_number() OVER () AS n FROM account_tiers
    WHERE effective_at NOT BETWEEN 0 AND 253402300799999999 OR expires_at NOT BETWEEN 1 AND 253402300799999999) b
  WHERE t.ctid = b.ctid;
UPDATE quota_overrides t SET effective_at = 253402300799999999 - b.n, expires_at = NULL
  FROM (SELECT ctid, row_number() OVER () AS n FROM quota_overrides
    WHERE effective_at NOT BETWEEN 0 AND 253402300799999999 OR expires_at NOT BETWEEN 1 AND 253402300799999999) b
  WHERE t.ctid = b.ctid;
UPDATE account_top_ups SET effective_at = 253402300799999998, expires_at = 253402300799999999
  WHERE effective_at NOT BETWEEN 0 AND 253402300799999999 OR expires_at NOT BETWEEN 1 AND 253402300799999999;

-- In two steps: PostgreSQL multiplies intervals in floating point, which is exact for whole
-- seconds and for less than one, but not for the microseconds of thousands of years.
CREATE FUNCTION pg_temp.instant(us BIGINT) RETURNS TIMESTAMPTZ LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN us NOT BETWEEN 0 AND 253402300799999999 THEN TIMESTAMPTZ 'epoch'
    ELSE TIMESTAMPTZ 'epoch' + INTERVAL '1 second' * (us / 1000000) + INTERVAL '1 microsecond' * (us % 1000000) END
$$;

ALTER TABLE accounts
  ALTER COLUMN last4      SET DEFAULT '',
  ALTER COLUMN version    SET DEFAULT 1,
  ALTER COLUMN updated_at TYPE TIMESTAMPTZ USING pg_temp.instant(updated_at),
  ALTER COLUMN updated_at SET DEFAULT now(),
  ADD CHECK (updated_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z');
ALTER TABLE account_tiers
  ALTER COLUMN effective_at TYPE TIMESTAMPTZ USING pg_temp.instant(effective_at),
  ALTER COLUMN effective_at SET DEFAULT now(),
  ALTER COLUMN expires_at   TYPE TIMESTAMPTZ USING pg_temp.instant(expires_at),
  ADD CHECK (effective_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z'),
  ADD CHECK (expires_at <= '9999-12-31 23:59:59.999999Z');
ALTER TABLE quota_overrides
  ALTER COLUMN id           SET DEFAULT gen_random_uuid()::TEXT,
  ALTER COLUMN descriptor   SET DEFAULT '',
  ALTER COLUMN unit         SET DEFAULT 'second',
  ALTER COLUMN algorithm    SET DEFAULT 'sliding_window',
  ALTER COLUMN burst        SET DEFAULT 0,
  ALTER COLUMN effective_at TYPE TIMESTAMPTZ USING pg_temp.instant(effective_at),
  ALTER COLUMN effective_at SET DEFAULT now(),
  ALTER COLUMN expires_at   TYPE TIMESTAMPTZ USING pg_temp.instant(expires_at),
  ALTER COLUMN created_at   TYPE TIMESTAMPTZ USING pg_temp.instant(created_at),
  ALTER COLUMN created_at   SET DEFAULT now(),
  ALTER COLUMN updated_at   TYPE TIMESTAMPTZ USING pg_temp.instant(updated_at),
  ALTER COLUMN updated_at   SET DEFAULT now(),
  ALTER COLUMN created_by   SET DEFAULT current_user,
  ADD CHECK (effective_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z'),
  ADD CHECK (expires_at <= '9999-12-31 23:59:59.999999Z'),
  ADD CHECK (created_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z'),
  ADD CHECK (updated_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z');
ALTER TABLE account_top_ups
  ALTER COLUMN effective_at TYPE TIMESTAMPTZ USING pg_temp.instant(effective_at),
  ALTER COLUMN effective_at SET DEFAULT now(),
  ALTER COLUMN expires_at   TYPE TIMESTAMPTZ USING pg_temp.instant(expires_at),
  ALTER COLUMN created_at   TYPE TIMESTAMPTZ USING pg_temp.instant(created_at),
  ALTER COLUMN created_at   SET DEFAULT now(),
  ALTER COLUMN created_by   SET DEFAULT current_user,
  ADD CHECK (effective_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z'),
  ADD CHECK (expires_at <= '9999-12-31 23:59:59.999999Z'),
  ADD CHECK (created_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z');
ALTER TABLE documents
  ALTER COLUMN updated_at TYPE TIMESTAMPTZ USING pg_temp.instant(updated_at),
  ALTER COLUMN updated_at SET DEFAULT now(),
  ADD CHECK (updated_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z');
ALTER TABLE account_changes
  ALTER COLUMN at TYPE TIMESTAMPTZ USING pg_temp.instant(at),
  ADD CHECK (at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z');

-- What may be left out may be NULL, too.
ALTER TABLE rate_limit_rules
  ALTER COLUMN weight_field DROP NOT NULL,
  ALTER COLUMN algorithm    DROP NOT NULL,
  ALTER COLUMN burst        DROP NOT NULL,
  ALTER COLUMN failure_mode DROP NOT NULL,
  ALTER COLUMN created_at   DROP DEFAULT,
  ALTER COLUMN updated_at   DROP DEFAULT;
ALTER TABLE rate_limit_rules
  ALTER COLUMN created_at TYPE TIMESTAMPTZ USING pg_temp.instant(created_at),
  ALTER COLUMN created_at SET DEFAULT now(),
  ALTER COLUMN updated_at TYPE TIMESTAMPTZ USING pg_temp.instant(updated_at),
  ALTER COLUMN updated_at SET DEFAULT now(),
  ADD CHECK (created_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z'),
  ADD CHECK (updated_at BETWEEN 'epoch' AND '9999-12-31 23:59:59.999999Z');
