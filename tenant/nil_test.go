package tenant_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/tenant"
)

// TestSnapshotOfNothingIsRefused: at once, and by words.
func TestSnapshotOfNothingIsRefused(t *testing.T) {
	for what, make := range map[string]func(){
		"tiers":    func() { tenant.NewSnapshot(nil, slices.Values([]tenant.Account(nil))) },
		"accounts": func() { tenant.NewSnapshot(new(tenant.Tiers), nil) },
	} {
		func() {
			defer func() {
				if words := fmt.Sprint(recover()); !strings.Contains(words, "the "+what+" are nil; hint: ") {
					t.Errorf("%s: %s", what, words)
				}
			}()
			make()
		}()
	}
}
