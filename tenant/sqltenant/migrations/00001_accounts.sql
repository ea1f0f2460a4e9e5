-- Instants are whole microseconds since the Unix epoch, UTC. An effective_at of 0
-- means always, an expires_at of NULL never.

-- +goose Up

-- One row: the version is that of the last change, the digest the end of the audit
-- chain. Its lock puts writes in order.
CREATE TABLE tenant_state (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  version BIGINT NOT NULL,
  digest  TEXT NOT NULL
);
INSERT INTO tenant_state (id, version, digest) VALUES (1, 0, '');

-- What a subject is. The version is that of its last change.
CREATE TABLE accounts (
  subject_key TEXT NOT NULL,
  subject     TEXT NOT NULL,
  last4       TEXT NOT NULL,
  version     BIGINT NOT NULL,
  updated_at  BIGINT NOT NULL,
  PRIMARY KEY (subject_key, subject)
);
CREATE INDEX accounts_version ON accounts (version);

CREATE TABLE account_tiers (
  subject_key  TEXT NOT NULL,
  subject      TEXT NOT NULL,
  tier         TEXT NOT NULL DEFAULT 'free' CHECK (length(tier) BETWEEN 1 AND 64),
  effective_at BIGINT NOT NULL,
  expires_at   BIGINT CHECK (expires_at > effective_at),
  PRIMARY KEY (subject_key, subject, effective_at),
  FOREIGN KEY (subject_key, subject) REFERENCES accounts (subject_key, subject) ON DELETE CASCADE
);
CREATE INDEX account_tiers_tier ON account_tiers (tier);

-- The quota of a subject for one descriptor; '' is the default quota. A
-- requests_per_unit of NULL is unlimited.
CREATE TABLE quota_overrides (
  id                TEXT PRIMARY KEY,
  subject_key       TEXT NOT NULL,
  subject           TEXT NOT NULL,
  descriptor        TEXT NOT NULL CHECK (length(descriptor) <= 256),
  requests_per_unit BIGINT CHECK (requests_per_unit >= 0),
  unit              TEXT NOT NULL,
  algorithm         TEXT NOT NULL,
  burst             BIGINT NOT NULL CHECK (burst >= 0),
  effective_at      BIGINT NOT NULL,
  expires_at        BIGINT CHECK (expires_at > effective_at),
  created_at        BIGINT NOT NULL,
  updated_at        BIGINT NOT NULL,
  created_by        TEXT NOT NULL,
  UNIQUE (subject_key, subject, descriptor, effective_at),
  FOREIGN KEY (subject_key, subject) REFERENCES accounts (subject_key, subject) ON DELETE CASCADE
);

-- The audit chain: one row for each version. The hash is over the row and the hash
-- before it.
CREATE TABLE account_changes (
  version      BIGINT PRIMARY KEY,
  at           BIGINT NOT NULL,
  actor        TEXT NOT NULL,
  subject_key  TEXT NOT NULL,
  subject      TEXT NOT NULL,
  before_state TEXT NOT NULL,
  after_state  TEXT NOT NULL,
  hash         TEXT NOT NULL
);

-- +goose Down
DROP TABLE account_changes;
DROP TABLE quota_overrides;
DROP TABLE account_tiers;
DROP TABLE accounts;
DROP TABLE tenant_state;
