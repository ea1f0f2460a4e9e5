package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// TestWaitsAreTold: who asks hears of it before anything is sent, also where nobody answers.
func TestWaitsAreTold(t *testing.T) {
	s, server := openRedis(t)
	server.Stop() // it hears what is sent and says nothing
	told := make(chan struct{}, 1)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		takes := []store.Take{{Key: []byte("k"), Limit: limit.Must(limit.PerMinute(1)), Hits: 1}}
		s.Take(store.OnWait(t.Context(), func() { told <- struct{}{} }), takes, make([]store.Result, 1))
	}()
	select {
	case <-told:
	case <-answered:
		t.Error("a take ended without a word that it waits")
	case <-time.After(patient):
		t.Error("a take waits and has not said so")
	}
	server.Continue()
	<-answered
}
