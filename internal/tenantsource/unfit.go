package tenantsource

import (
	"fmt"

	"github.com/headgate/headgate/tenant"
)

// checkFit refuses tiers with a limit that the stores cannot decide, or a store that is not there: its requests would
// be left to the failure modes of their rules for good.
func (t *Source) checkFit(tiers *tenant.Tiers) error {
	for where, err := range tiers.Unfit(t.Unfit) {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}
