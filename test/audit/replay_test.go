package audit

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/testserver"
)

// What was decided, and written to a real topic with hashed keys, is replayed from there: the
// candidate denies exactly what is above its limit.
func TestReplayOfATopic(t *testing.T) {
	server := testserver.Kafka(t)
	const topic, perKey, mayPass = "replayed", 300, 100
	server.CreateTopic(topic, partitions)
	url := "kafka://" + server.Addr + "/" + topic
	sink, err := audit.OpenKafka(url, audit.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hasher, err := keyname.NewHasher(identity.NewSecret(strings.Repeat("k", identity.MinHashKey)))
	if err != nil {
		t.Fatal(err)
	}
	// A millisecond passes from one decision to the next.
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	recorder := audit.New(audit.Options{
		Node: "n", Sample: 1, Hasher: hasher, Sinks: []audit.Sink{sink},
		Now: func() time.Time { now = now.Add(time.Millisecond); return now },
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { recorder.Run(ctx) })
	d := newDecider(t, recorder)
	responses := make([]headgate.Response, 1)
	for i := range perKey * keys {
		if err := d.limiter.Check(t.Context(), []headgate.Request{d.requests[i%keys]}, responses); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	running.Wait()
	if s := closed(t, recorder).Sinks[0]; s.Written != perKey*keys {
		t.Fatalf("%+v", s)
	}

	list, err := audit.Partitions(t.Context(), url, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var inputs []replay.Input
	for i := range list {
		inputs = append(inputs, replay.Input{
			Name: list[i].Name(), Open: func() (io.ReadCloser, error) { return list[i].Open(t.Context()) },
			Decoder: func() (replay.Decoder, error) { return replay.Events(nil), nil },
		})
	}
	report, err := replay.Run(t.Context(), replay.Options{
		Inputs: inputs, Top: keys, Candidate: testrules.Load(t, `
domain: d
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 100, algorithm: fixed_window}}
`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != partitions || report.Requests != perKey*keys || report.NewlyDenied != (perKey-mayPass)*keys || report.Reading.Late != 0 || len(report.DeniedKeys.Keys) != keys {
		t.Errorf("%d partitions: %+v", len(list), report)
	}
	// The same partitions are asked about again, as often as one likes.
	asks := make(map[uint64]int)
	for range 2 {
		asked, err := replay.Asks(t.Context(), replay.Options{Inputs: inputs, Candidate: testrules.Load(t, "domain: d\nmatch: path\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")}, func(a *replay.Ask) { asks[a.Key]++ })
		if err != nil || asked.Requests != perKey*keys {
			t.Fatalf("%+v %v", asked, err)
		}
	}
	for key, n := range asks {
		if n != 2*perKey || len(asks) != keys {
			t.Errorf("%d asks for key %x, one of %d", n, key, len(asks))
		}
	}
	for _, k := range report.DeniedKeys.Keys {
		if k.Count != perKey-mayPass || k.Error != 0 || len(k.Key) != len("user:")+keyname.HashLength {
			t.Errorf("%+v", k)
		}
	}
}
