-- +goose Up

-- Texts that every node follows: rules, tiers, switches. The version is that of the
-- last change.
CREATE TABLE documents (
  kind       TEXT NOT NULL CHECK (length(kind) BETWEEN 1 AND 64),
  name       TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 600),
  text       TEXT NOT NULL CHECK (length(text) BETWEEN 1 AND 1048576),
  version    BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  updated_by TEXT NOT NULL,
  PRIMARY KEY (kind, name)
);

-- Rules as rows, which operators may also write by hand: only scope, limit_count and
-- window_ms must be given. A route or method of NULL means all; '' and 0 mean the
-- default. A created_at or updated_at of 0 is not known.
CREATE TABLE rate_limit_rules (
  id           INTEGER PRIMARY KEY,
  scope        TEXT NOT NULL CHECK (length(scope) BETWEEN 1 AND 64),
  route        TEXT CHECK (length(route) BETWEEN 1 AND 1024),
  method       TEXT CHECK (length(method) BETWEEN 1 AND 64),
  limit_count  BIGINT NOT NULL CHECK (limit_count BETWEEN 0 AND 1125899906842624),
  window_ms    BIGINT NOT NULL CHECK (window_ms BETWEEN 1 AND 31622400000),
  weight_field TEXT NOT NULL DEFAULT '' CHECK (length(weight_field) <= 256),
  algorithm    TEXT NOT NULL DEFAULT '' CHECK (length(algorithm) <= 64),
  burst        BIGINT NOT NULL DEFAULT 0 CHECK (burst BETWEEN 0 AND 1125899906842624),
  failure_mode TEXT NOT NULL DEFAULT '' CHECK (length(failure_mode) <= 64),
  is_active    BOOLEAN NOT NULL DEFAULT TRUE,
  created_at   BIGINT NOT NULL DEFAULT 0,
  updated_at   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX rate_limit_rules_active ON rate_limit_rules (scope, route, method) WHERE is_active;

-- Hits granted to a subject beyond its quota for one descriptor.
CREATE TABLE account_top_ups (
  id           TEXT NOT NULL,
  subject_key  TEXT NOT NULL,
  subject      TEXT NOT NULL,
  descriptor   TEXT NOT NULL CHECK (length(descriptor) <= 256),
  hits         BIGINT NOT NULL CHECK (hits >= 1),
  effective_at BIGINT NOT NULL,
  expires_at   BIGINT NOT NULL CHECK (expires_at > effective_at),
  created_at   BIGINT NOT NULL,
  created_by   TEXT NOT NULL,
  PRIMARY KEY (subject_key, subject, id),
  FOREIGN KEY (subject_key, subject) REFERENCES accounts (subject_key, subject) ON DELETE CASCADE
);

-- Accounts are listed by tier in the order of their subjects.
DROP INDEX account_tiers_tier;
CREATE INDEX account_tiers_tier ON account_tiers (tier, subject_key, subject);

-- What a change was of. For other kinds than 'account' the subject_key is '' and the
-- subject the name of a document or the id of a row.
ALTER TABLE account_changes ADD COLUMN kind TEXT NOT NULL DEFAULT 'account';

-- +goose Down
ALTER TABLE account_changes DROP COLUMN kind;
DROP INDEX account_tiers_tier;
CREATE INDEX account_tiers_tier ON account_tiers (tier);
DROP TABLE account_top_ups;
DROP TABLE rate_limit_rules;
DROP TABLE documents;
