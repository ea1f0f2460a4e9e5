package app

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusedClientsOfTheProxy: a client whose token the proxy refuses is counted, and one
// whom a limit denies is not.
func TestRefusedClientsOfTheProxy(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"one","use":"sig","x":"` + part(public) + `"}]}`))
	}))
	defer keys.Close()
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	s := proxyBefore(t, backend.URL, twoADay)
	s.Identity = filepath.Join(t.TempDir(), "identity.yaml")
	text := "token: {issuer: a, any_audience: true, algorithms: [EdDSA], jwks_url: '" + keys.URL + "', allow_loopback: true, bad: refuse, bearer: true}\n" +
		"descriptors: [{entries: [remote_address]}]\n"
	if err := os.WriteFile(s.Identity, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, ops := runProxy(t, s)
	forged := part([]byte(`{"alg":"EdDSA","kid":"one"}`)) + "." + part([]byte(`{"iss":"a"}`)) + "." + part(make([]byte, ed25519.SignatureSize))
	for _, c := range []struct {
		token  string
		status int
	}{{forged, 401}, {"nonsense", 401}, {forged, 401}, {"", 200}, {"", 200}, {"", 429}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, clients, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.status {
			t.Errorf("%q: %d, want %d", c.token, answer.StatusCode, c.status)
		}
	}
	_, metrics := get(t, ops+"/metrics")
	for _, want := range []string{
		`headgate_auth_refused_total{door="proxy",reason="bad_signature"} 2`, `headgate_auth_refused_total{door="proxy",reason="malformed"} 1`,
		`headgate_auth_refused_total{door="proxy",reason="expired"} 0`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(metrics, `door="admin"`) {
		t.Error("there are series of a door that is not there")
	}
}
