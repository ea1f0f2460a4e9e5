package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// TestWaitsAreTold: who asks hears of it before anything is sent, also where nobody answers.
func TestWaitsAreTold(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Store){
		"take": func(ctx context.Context, s *Store) {
			takes := []store.Take{{Key: []byte("k"), Limit: limit.Must(limit.PerMinute(1)), Hits: 1}}
			s.Take(ctx, takes, make([]store.Result, 1))
		},
		"swap": func(ctx context.Context, s *Store) {
			s.Swap(ctx, []store.Swap{{Key: []byte("k"), New: []byte("v"), TTL: time.Minute}}, make([]store.Swapped, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, server := openRedis(t)
			server.Stop() // it hears what is sent and says nothing
			told := make(chan struct{}, 1)
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				ask(store.OnWait(t.Context(), func() { told <- struct{}{} }), s)
			}()
			select {
			case <-told:
			case <-answered:
				t.Error("it ended without a word that it waits")
			case <-time.After(patient):
				t.Error("it waits and has not said so")
			}
			server.Continue()
			<-answered
		})
	}
}
