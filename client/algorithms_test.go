package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

// TestPacingByAlgorithm: a caller that asks as fast as it can gets through by
// every way of counting, at most of the rate that it could have, and is hardly
// ever refused. Time is virtual.
func TestPacingByAlgorithm(t *testing.T) {
	for _, spec := range []limit.Spec{
		{Algorithm: limit.SlidingWindow, Quota: 100, Period: time.Minute},
		{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Minute},
		{Algorithm: limit.SubWindows, Quota: 100, Period: time.Minute},
		{Algorithm: limit.SlidingLog, Quota: 100, Period: time.Minute},
		{Algorithm: limit.TokenBucket, Quota: 100, Period: time.Minute, Burst: 20},
		{Algorithm: limit.GCRA, Quota: 100, Period: time.Minute, Burst: 20},
	} {
		t.Run(spec.Algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { paceAgainst(t, limit.Must(spec)) })
		})
	}
}

func paceAgainst(t *testing.T, l *limit.Limit) {
	buckets, err := memstore.New(memstore.Options{MaxBytes: memstore.MinMaxBytes, Now: func() limit.Micros { return limit.MicrosOf(time.Now()) }})
	if err != nil {
		t.Fatal(err)
	}
	defer buckets.Close()
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := httpanswer.New(httpanswer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	server := roundTrip(func(req *http.Request) (*http.Response, error) {
		check := ask(1, "user", "1")
		check.Domain, check.Descriptors[0].Limit = headgate.CallerDomain, l
		responses := make([]headgate.Response, 1)
		if err := limiter.Check(req.Context(), []headgate.Request{check}, responses); err != nil {
			return nil, err
		}
		s := encoder.Summarize(&responses[0])
		resp := &http.Response{StatusCode: s.Status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
		for _, f := range encoder.AppendFields(nil, nil, &responses[0], &s, time.Now()) {
			resp.Header.Set(f.Name, f.Value)
		}
		if s.Status != http.StatusOK {
			refused++
		}
		return resp, nil
	})
	c := &http.Client{Transport: &client.Transport{Base: server}}
	const requests = 600
	start := time.Now()
	for range requests {
		resp, err := c.Get("http://api.test/")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", resp, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(start)
	t.Logf("%v: %d requests in %v, %d refused", l.Algorithm, requests, took, refused)
	best := time.Duration(requests) * l.Period / time.Duration(l.Quota)
	if took > 2*best || refused > requests/100 {
		t.Errorf("%d requests took %v, at best %v; %d refused", requests, took, best, refused)
	}
}
