package headgate_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// Of a sensitive rule no verdict says that its limit was raised, whatever operators wrote.
func TestD6SensitiveRulesSayNothingOfRaises(t *testing.T) {
	b := newBench(t, raisable, headgate.Options{})
	until := noon.Add(time.Hour).Format(time.RFC3339)
	switched(t, b, `{"target":"raise:d.login","state":"raised","raise":20,"until":"`+until+`"}`)
	for _, v := range b.check(on("login:x")).Verdicts {
		if v.Raised != 0 {
			t.Errorf("%s says that it is raised by %d", v.Rule.ID, v.Raised)
		}
	}
}
