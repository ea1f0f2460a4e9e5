package xdsrules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/rules/rulefile"
)

// storm is the client's end of a stream whose control plane does not wait for answers.
type storm struct {
	adsStream
	ctx     context.Context
	answers chan *discovery.DiscoveryResponse
	began   time.Time
	told    []*discovery.DiscoveryRequest
	at      []time.Duration
}

func (s *storm) Recv() (*discovery.DiscoveryResponse, error) {
	select {
	case r, ok := <-s.answers:
		if !ok {
			return nil, io.EOF
		}
		return r, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *storm) Send(r *discovery.DiscoveryRequest) error {
	s.told, s.at = append(s.told, proto.Clone(r).(*discovery.DiscoveryRequest)), append(s.at, time.Since(s.began))
	return nil
}

// weather is a storm, and a client that puts rules in force by put.
func weather(ctx context.Context, put func() (bool, error)) (*storm, *Client) {
	c := New(Options{
		Put:       func([]rulefile.File) (bool, error) { return put() },
		Connected: func(bool) {}, Answered: func(Outcome) {}, Logger: slog.New(slog.DiscardHandler),
	})
	return &storm{ctx: ctx, answers: make(chan *discovery.DiscoveryResponse), began: time.Now()}, c
}

// answer sends an answer whose version is its nonce.
func (s *storm) answer(nonce string) {
	s.answers <- &discovery.DiscoveryResponse{TypeUrl: TypeURL, Nonce: nonce, VersionInfo: nonce}
}

// TestStorm: of answers that come faster than they are looked at, the newest counts, and what was
// held back is told no more after an acceptance.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		put := 0
		s, c := weather(ctx, func() (bool, error) {
			if put++; put < 3 {
				return false, errors.New("bad")
			}
			return true, nil
		})
		go func() {
			s.answer("first")
			synctest.Wait()
			for range 1000 {
				s.answer("second")
			}
			_ = sleep.For(ctx, refusedPause+time.Millisecond) // the second refusal is held back for a second
			for range 1000 {
				s.answer("not looked at")
			}
			s.answer("third")
			_ = sleep.For(ctx, time.Minute)
			close(s.answers)
		}()
		if answered, err := c.talk(s); !answered || !errors.Is(err, io.EOF) {
			t.Error(answered, err)
		}
		if put != 3 || len(s.told) != 3 {
			t.Fatalf("%d sets were looked at, and %d requests sent", put, len(s.told))
		}
		if last := s.told[2]; s.at[2] != 2*refusedPause || last.GetResponseNonce() != "third" || last.GetVersionInfo() != "third" || last.GetErrorDetail() != nil {
			t.Errorf("after %v: %v", s.at[2], last)
		}
	})
}

// TestStormOfBadRules: a refusal is told when its time has come, whatever has come since, and is
// that of the newest.
func TestStormOfBadRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, c := weather(ctx, func() (bool, error) { return false, errors.New("bad") })
		go func() {
			for i := range 6 {
				s.answer(fmt.Sprint(i))
				_ = sleep.For(ctx, 200*time.Millisecond)
			}
			_ = sleep.For(ctx, 100*time.Millisecond) // the second refusal was at 0.2 s
			close(s.answers)
		}()
		_, _ = c.talk(s) // which ends as it is made to
		if n := len(s.told); n != 3 || s.at[2] != 1200*time.Millisecond || s.told[2].GetResponseNonce() != "5" {
			t.Errorf("%d requests, at %v: %v", n, s.at, s.told[n-1])
		}
	})
}
