package sqltenant_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// Who begins with accounts that were kept, in which nothing has changed since, hears of the
// settings from the first look on, and not only when everything is compared again.
func TestSettingsAreToldBesideKeptAccounts(t *testing.T) {
	d := open(t, "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	before := sqltenant.NewWatcher(d, new(tenant.Tiers), sqltenant.WatcherOptions{})
	if err := before.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	once := sync.OnceFunc(func() { close(told) })
	w := sqltenant.NewWatcher(d, new(tenant.Tiers), sqltenant.WatcherOptions{
		OnSettings: func(sqltenant.Settings) { once() },
		OnError: func(err error) {
			if err != nil {
				t.Error(err)
			}
		},
	})
	w.RepairEvery(time.Hour)
	w.Begin(before.Held())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	defer running.Wait()
	defer cancel()
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("nobody was told of settings")
	}
}
