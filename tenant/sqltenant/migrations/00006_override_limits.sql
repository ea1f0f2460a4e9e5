-- +goose Up

-- Further limits of an override, all of which count beside the one that stands in the row, as
-- JSON: [{"requests_per_unit": 5000, "unit": "hour"}], with algorithm and burst where they are
-- not the usual ones. '' is none.
ALTER TABLE quota_overrides ADD COLUMN more_limits TEXT NOT NULL DEFAULT '' CHECK (length(more_limits) <= 4096);

-- +goose Down
ALTER TABLE quota_overrides DROP COLUMN more_limits;
