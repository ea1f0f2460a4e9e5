package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// window is a server with a fixed window of a minute, that says so.
type window struct {
	quota, used, refused int
	end                  time.Time
}

func (w *window) answer(_ int, _ *http.Request) *http.Response {
	now := time.Now()
	if !now.Before(w.end) {
		w.end, w.used = now.Add(time.Minute), 0
	}
	status := 200
	if w.used == w.quota {
		status = 429
		w.refused++
	} else {
		w.used++
	}
	t := strconv.Itoa(int((w.end.Sub(now) + time.Second - 1) / time.Second))
	lines := fmt.Sprintf("RateLimit-Policy: \"w\";q=%d;w=60\nRateLimit: \"w\";r=%d;t=%s", w.quota, w.quota-w.used, t)
	if status == 429 {
		lines += "\nRetry-After: " + t
	}
	return reply(status, lines)
}

// TestPacing: a caller that asks as fast as it can meets no refusal, spends the
// quota, and never waits for long at one time.
func TestPacing(t *testing.T) {
	for _, callers := range []int{1, 8} {
		t.Run(strconv.Itoa(callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &window{quota: 100}
				server := &answers{answer: w.answer}
				longest, mu := time.Duration(0), sync.Mutex{}
				rt := &Transport{Base: server, random: zero, MaxWait: time.Minute, Observe: func(e Event) {
					mu.Lock()
					defer mu.Unlock()
					longest = max(longest, e.Wait)
				}}
				start, requests := time.Now(), 480
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for range requests / callers {
							if status, err := get(t, rt); status != 200 || err != nil {
								t.Errorf("%d, %v", status, err)
							}
							time.Sleep(10 * time.Millisecond)
						}
					})
				}
				all.Wait()
				took := time.Since(start)
				if w.refused > 0 {
					t.Errorf("%d refusals", w.refused)
				}
				if least, most := 4*time.Minute, 5*time.Minute+10*time.Second; took < least || took > most {
					t.Errorf("took %v for %d requests at %d a minute, want %v to %v", took, requests, w.quota, least, most)
				}
				if most := time.Duration(callers) * 10 * time.Second; longest > most {
					t.Errorf("one waited for %v, want at most %v", longest, most)
				}
				if s := rt.Stats(); s.Paced == 0 || s.Waited == 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestPacingYields: what would pass is not failed for the sake of spreading;
// what cannot pass is not sent; MaxWait bounds the wait for a reset.
func TestPacingYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 3
		server := &answers{answer: func(int, *http.Request) *http.Response {
			left = max(left-1, 0)
			return reply(200, fmt.Sprintf(`RateLimit: "a";r=%d;t=60`, left))
		}}
		rt := &Transport{Base: server, random: zero}
		start := time.Now()
		var wait *WaitError
		for i := range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := do(t, rt, request(t, ctx, "GET", origin, ""))
			cancel()
			if (i == 3) != errors.As(err, &wait) || i < 3 && err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
		if wait == nil || wait.Policy != "a" || wait.Wait != time.Minute || time.Since(start) != 0 {
			t.Errorf("%v after %v", wait, time.Since(start))
		}
		if _, err := get(t, rt); err != nil || time.Since(start) != DefaultMaxWait {
			t.Errorf("sent after %v, want %v (%v)", time.Since(start), DefaultMaxWait, err)
		}
		if _, err := get(t, &Transport{Base: server, PaceBelow: -1, MaxWait: -1}); err != nil {
			t.Error(err)
		}
	})
}

// TestCanceledWaitersLeave: who gives up waiting is not counted for ever.
func TestCanceledWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{answer: sequence(of(200, `RateLimit: "a";r=5;t=60`))}
		rt := &Transport{Base: server, random: zero}
		if _, err := get(t, rt); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { _, _ = do(t, rt, request(t, ctx, "GET", origin, "")) })
		}
		synctest.Wait()
		p := rt.origins.get(rt.origins.keyOf(request(t, ctx, "GET", origin, ""), ""))
		if p.mu.waiting != 3 { // the first of them went out at once
			t.Errorf("%d are waiting, want 3", p.mu.waiting)
		}
		cancel()
		all.Wait()
		if p.mu.waiting != 0 {
			t.Errorf("%d are waiting after all were canceled", p.mu.waiting)
		}
	})
}

// TestOtherUnits: what is counted in bytes, or in flight, paces nobody.
func TestOtherUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{answer: sequence(of(200, `RateLimit-Policy: "b";q=9;qu="content-bytes";w=60
RateLimit: "b";r=0;t=60`))}
		rt, start := &Transport{Base: server}, time.Now()
		for range 3 {
			if _, err := get(t, rt); err != nil || time.Since(start) != 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
	})
}
