package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestNoReasonPassesForASwitch: what somebody wrote into the database by hand stays in
// its cell of the table.
func TestNoReasonPassesForASwitch(t *testing.T) {
	kept := keptSwitch{
		Document: sqltenant.Document{UpdatedBy: "ann\tben"},
		Switch:   switches.Switch{State: switches.Off, Reason: "oops\nrule:api.user\toff"},
	}
	var out strings.Builder
	if err := printSwitches(&out, []keptSwitch{kept}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "oops\uFFFDrule:api.user\uFFFDoff") {
		t.Errorf("%q", got)
	}
}
