package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	cond "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// BenchmarkRowsInForce measures, in a process with many rows of rules, how long a changed
// row takes to be in force, and a switch that is set right after one was changed.
func BenchmarkRowsInForce(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			server := testserver.Postgres(b)
			db, err := sqltenant.Open(b.Context(), server.DSN)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			server.Exec(fmt.Sprintf(`INSERT INTO rate_limit_rules (scope, method, route, limit_count, window_ms) SELECT 'user', 'GET', '/v1/things/' || i, 5, 3600000 FROM generate_series(1, %d) i`, n))
			s := settings()
			s.Tenants = databaseAt(server.DSN)
			p, err := newProcess(&s.Settings, config.Does{Decide: true}, new(keys), Options{Logger: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			defer p.stack.Close()
			if err := p.loadRules(); err != nil {
				b.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); p.health.tenants.Watch(b.Context()) }()
			b.Cleanup(func() { <-ended })
			wait := func(what string, met func() bool) time.Duration {
				begun := time.Now()
				cond.True(b, what, met)
				return time.Since(begun)
			}
			first := wait("rules", func() bool { return p.health.tenants.Ready() == nil && p.limiter.Rules().NumRules() == n })
			var row, switched time.Duration
			for i := 0; b.Loop(); i++ {
				before := p.limiter.Rules().Version()
				server.Exec(fmt.Sprintf(`UPDATE rate_limit_rules SET limit_count = %d WHERE id = 7`, i+10))
				begun := time.Now()
				one := switches.Switch{Target: switches.Target{Rule: fmt.Sprint("r", i)}, State: switches.Off}
				text := `{"target":"` + one.Target.String() + `","state":"off"}`
				if _, err := db.PutDocument(b.Context(), sqltenant.DocumentChange{Kind: sqltenant.SwitchDocument, Name: one.Target.String(), Text: text, Actor: "ann", Version: sqltenant.Anyway, At: time.Now()}); err != nil {
					b.Fatal(err)
				}
				switched = wait("a switch", func() bool {
					for _, s := range p.health.tenants.Switches() {
						if strings.Contains(s.Target.String(), one.Target.Rule) {
							return true
						}
					}
					return false
				})
				wait("a row", func() bool { return p.limiter.Rules().Version() != before })
				row = time.Since(begun)
			}
			b.ReportMetric(first.Seconds(), "s/start")
			b.ReportMetric(switched.Seconds()*1e3, "ms/switch")
			b.ReportMetric(row.Seconds(), "s/row")
		})
	}
}
