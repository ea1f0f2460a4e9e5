package httpcheck

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/turns/turnstest"
	"github.com/headgate/headgate/store"
)

// waiter is a Checker that waits for a store where the domain says so.
type waiter struct{}

func (waiter) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	if requests[0].Domain == "waits" {
		store.Waits(ctx)
	}
	responses[0] = headgate.Response{Allowed: true, DomainKnown: true}
	return nil
}

// A check that is about to wait for the store waits for a place first, others do not, and each
// gives its place back.
func TestChecksWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := turnstest.NewFull(t.Context())
		h, err := NewHandler(Options{Checker: waiter{}, Turns: places.Turns})
		if err != nil {
			t.Fatal(err)
		}
		check := func(domain string) {
			r := httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(`{"domain":"`+domain+`","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("domain %s: %d %s", domain, w.Code, w.Body)
			}
		}
		answered := 0
		go func() {
			for range 3 { // on one place
				check("waits")
				answered++
			}
		}()
		synctest.Wait()
		if check("other"); answered != 0 {
			t.Error("a check waits for the store without a place")
		}
		places.Free()
		if synctest.Wait(); answered != 3 {
			t.Errorf("%d are answered when there is a place, want 3", answered)
		}
	})
}

// CheckOnce is Check.
func (w waiter) CheckOnce(ctx context.Context, requests []headgate.Request, _ []string, responses []headgate.Response) error {
	return w.Check(ctx, requests, responses)
}

// So does a check with an id.
func TestChecksWithIDsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := turnstest.NewFull(t.Context())
		h, err := NewHandler(Options{Checker: waiter{}, Turns: places.Turns})
		if err != nil {
			t.Fatal(err)
		}
		answered := false
		go func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(`{"id":"1","domain":"waits","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			answered = true
		}()
		if synctest.Wait(); answered || places.Stats().Waiting != 1 {
			t.Error("a check with an id waits for the store without a place")
		}
		places.Free()
		if synctest.Wait(); !answered {
			t.Error("it is not answered when there is a place")
		}
		places.Fill(t.Context()) // which has been given back
	})
}
