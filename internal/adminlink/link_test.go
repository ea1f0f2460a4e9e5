package adminlink

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// servers returns a server that is gone, and one that answers with what it was sent.
func servers(t *testing.T) []*url.URL {
	t.Helper()
	gone := fmt.Sprintf("http://127.0.0.1:%d", testserver.FreePort(t))
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Headers", r.Header.Get("Authorization")+"|"+r.Header.Get("Cookie")+"|"+r.Header.Get("X-Forwarded-For"))
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+string(body))
	}))
	t.Cleanup(there.Close)
	var list []*url.URL
	for _, address := range []string{gone, there.URL} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, u)
	}
	return list
}

func open(t *testing.T) (l *Link, troubles *int) {
	t.Helper()
	troubles = new(int)
	l, err := New(Options{URLs: servers(t), OnTrouble: func(string, error) { *troubles++ }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, troubles
}

// A question goes to the next address at once, and later ones stay there.
func TestQuestionsGoOn(t *testing.T) {
	l, troubles := open(t)
	client := &http.Client{Transport: l}
	for range 3 {
		response, err := client.Get("http://admin/x")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(text) != "GET /x " {
			t.Errorf("%q", text)
		}
	}
	if *troubles != 1 {
		t.Errorf("the address that is gone was asked %d times", *troubles)
	}
}

// A change is not made twice: it fails where the address is gone, and the next one goes on.
func TestChangesAreSentOnce(t *testing.T) {
	l, _ := open(t)
	client := &http.Client{Transport: l}
	if response, err := client.Post("http://admin/x", "text/plain", strings.NewReader("one")); err == nil {
		response.Body.Close()
		t.Errorf("a change was sent on: %s", response.Status)
	}
	response, err := client.Post("http://admin/x", "text/plain", strings.NewReader("two"))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if string(text) != "POST /x two" {
		t.Errorf("%q", text)
	}
}

// What a browser sends beside what the API reads stays here, its cookie first of all.
func TestForwardedHeaders(t *testing.T) {
	l, _ := open(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/v1/me", nil)
	r.Header.Set("Authorization", "Bearer t")
	r.Header.Set("Cookie", "session=1")
	w := httptest.NewRecorder()
	l.Forward().ServeHTTP(w, r)
	if got := w.Header().Get("X-Headers"); w.Code != http.StatusOK || got != "Bearer t||" {
		t.Errorf("%d, %q", w.Code, got)
	}
}

// Nobody answers: the browser is told so, and no address.
func TestNobodyAnswers(t *testing.T) {
	l, err := New(Options{URLs: servers(t)[:1]})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	l.Forward().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/v1/me", nil))
	if body := w.Body.String(); w.Code != http.StatusBadGateway || !strings.Contains(body, "no admin process") || strings.Contains(body, "127.0.0.1") {
		t.Errorf("%d %s", w.Code, body)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a link to nowhere")
	}
}
