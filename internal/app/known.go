package app

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/identityfile"
	"github.com/headgate/headgate/internal/keylookup"
	"github.com/headgate/headgate/internal/telemetry"
)

// knows returns what is asked whether an API key was given to someone, and keeps it up to
// date.
func (p *process) knows(from identityfile.KnownKeys) (known, unsure func(string) bool, err error) {
	var asked apikeys.Known
	switch {
	case from.Accounts:
		if p.settings.Tenants == (config.DatabaseURL{}) && !p.settings.Follows() {
			return nil, nil, errors.New("accounts: there are none; hint: --tenants names the database")
		}
		asked = apikeys.Accounts{Snapshot: p.limiter.Tenants}
	case from.File != "":
		list, err := apikeys.LoadList(from.File)
		if err != nil {
			return nil, nil, fmt.Errorf("file: %w", err)
		}
		p.keepFresh("known_api_keys", "the file of known API keys", tellingOnce(list.Reload))
		asked = list
	default:
		lookup, err := keylookup.New(from.URL)
		if err != nil {
			return nil, nil, fmt.Errorf("url: %w", err)
		}
		lookup.OnTrouble = failing(p.logger, "nobody answers which API keys are known; those that were known are for an hour, and others count as unverified",
			"whoever knows the API keys answers again")
		p.metrics.WatchKeyLookup(func() telemetry.KeyLookup { return telemetry.KeyLookup(lookup.Counts()) })
		p.tasks = append(p.tasks, lookup.Run)
		asked = lookup
	}
	return asked.Known, asked.Unsure, nil
}
