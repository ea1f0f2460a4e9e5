package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// A switch in the store that cannot be is named by the log, once, and by /readyz; the
// others count.
func TestSharedSwitchThatCannotBe(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	limiter, err := headgate.New(headgate.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s := &sharedSwitches{inForce: switchboard.NewInForce(limiter, logger), logger: logger}
	for version := range int64(2) {
		s.put([]sqltenant.Document{
			{Kind: sqltenant.SwitchDocument, Name: "raise:api.user", Text: `{"target":"raise:api.user","state":"raised","raise":100000}`},
			{Kind: sqltenant.SwitchDocument, Name: "all", Text: `{"target":"all","state":"shadow"}`},
		}, version+1)
	}
	if got := strings.Count(log.String(), "name=raise:api.user"); got != 1 {
		t.Errorf("the log names it %d times:\n%s", got, &log)
	}
	r := s.report()
	if r.OK || len(r.Refused) != 1 || r.Refused[0].Name != "raise:api.user" || r.Switches != 1 || s.state().RefusedSwitches != 1 {
		t.Errorf("/readyz says %+v", r)
	}
}
