package dualrun

import (
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
)

// Windows whose ends are two seconds apart may be the same: both are said in whole seconds.
func TestWindowsApart(t *testing.T) {
	for apart, want := range map[time.Duration]Cause{windowsApart: Counts, windowsApart + 1: Window, -windowsApart: Counts, -windowsApart - 1: Window} {
		theirs, ours := answer(of(over, 5, time.Minute)), answer(of(ok, 5, time.Minute+apart))
		if got := compare(theirs, ours, begun, begun.Add(2*time.Hour)); got.cause != want {
			t.Errorf("%v apart: %s, want %s", apart, got.cause, want)
		}
	}
}

// The examples of a cause are its newest.
func TestExamplesAreTheNewest(t *testing.T) {
	k, later := newTally(), begun.Add(2*time.Hour)
	for i := range maxExamples + 3 {
		k.add(request("d", "user", "v"), answer(of(ok, 5, 0)), answer(of(ok, 6, 0)), later.Add(time.Duration(i)*time.Second))
	}
	got := k.report(later).Examples
	if len(got) != maxExamples || !got[0].At.Equal(later.Add(3*time.Second)) || !got[maxExamples-1].At.Equal(later.Add((maxExamples+2)*time.Second)) {
		t.Errorf("%+v", got)
	}
}

// What belongs to the connection of the caller is not passed on to the old service, nor what
// belongs to that of the old service to the caller.
func TestWhatBelongsToAConnection(t *testing.T) {
	s := New(Options{})
	in := metadata.Pairs("user-agent", "grpc-go", "content-type", "application/grpc", "te", "trailers", "connection", "close",
		":authority", "headgate", "grpc-timeout", "1S", "x-request-id", "7")
	out, _ := metadata.FromOutgoingContext(s.passedOn(metadata.NewIncomingContext(t.Context(), in)))
	for _, md := range []metadata.MD{out, back(in)} {
		if len(md) != 1 || len(md.Get("x-request-id")) != 1 {
			t.Errorf("%v", md)
		}
	}
}
