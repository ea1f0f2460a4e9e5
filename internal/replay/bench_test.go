package replay_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/internal/testrules"
)

// benchEvents are so many that the report has a million of them by a bench of ten.
const benchEvents = 100_000

// BenchmarkEvents replays events with two descriptors each against rules that look at both. Its
// figures are of one core: run it with -cpu 1.
func BenchmarkEvents(b *testing.B) {
	set := testrules.Load(b, `
domain: api
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 100}
  descriptors:
  - {key: op, value: write, rate_limit: {unit: minute, requests_per_unit: 10}}
`)
	var file bytes.Buffer
	random, at := rand.New(rand.NewPCG(1, 2)), int64(1795348800000)
	for i := range benchEvents {
		at += random.Int64N(4)
		user := min(random.ExpFloat64()*1000, 50_000)
		op := []string{"read", "write", "list"}[i%3]
		fmt.Fprintf(&file, `{"schema":1,"ts":%d,"event_id":"019dfe03-6d7b-7a31-8c55-%012x","node":"n1","domain":"api","key":"user:%.0[3]f","key_hashed":false,`+
			`"descriptors":[{"entries":"user:%.0[3]f","hits":1},{"entries":"user:%.0[3]f,op:%[4]s","hits":1}],"rule":"api.user","algorithm":"sliding_window",`+
			`"limit":100,"used":1,"remaining":99,"hits":1,"outcome":"allowed","allowed":true,"degraded":"","client_ip":"203.0.113.7","user_agent":"curl/8.5.0",`+
			`"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","config_version":"3f1c9a","took_us":12,"sample_rate":1}`+"\n", at, i, user, op)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		report, err := replay.Run(b.Context(), replay.Options{
			Inputs: []replay.Input{textInput("events", file.String(), events(nil))}, Candidate: set, Window: replay.DefaultWindow,
		})
		if err != nil || report.Requests != benchEvents {
			b.Fatal(report, err)
		}
	}
	b.ReportMetric(float64(benchEvents)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
