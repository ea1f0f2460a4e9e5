package config

import (
	"strings"
	"testing"
)

// TestCallersTLS: what does not go together is refused, and which listeners are secured.
func TestCallersTLS(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // of the error; "" for none
	}{
		{[]string{"--tls-cert=c", "--tls-key=k", "--client-ca=a", "--client-names=cn:x", "--tls-except=grpc, auth"}, ""},
		{[]string{"--tls-cert=c"}, "one without the other"},
		{[]string{"--tls-key=k"}, "one without the other"},
		{[]string{"--client-ca=a"}, "--tls-cert and --tls-key"},
		{[]string{"--tls-cert=c", "--tls-key=k", "--client-names=cn:x"}, "--client-ca"},
		{[]string{"--tls-except=admin"}, "http, grpc, auth, usage"},
		{[]string{"--socket-mode=0999"}, "0660"},
		{[]string{"--socket-mode=7777"}, "0660"},
		{[]string{"--max-connections=-1"}, "out of range"},
		{[]string{"--caller-limits", "--callers=f"}, "anonymous"},
		{[]string{"--no-caller-limits", "--callers=f"}, ""},
	} {
		_, err := parse(t, c.args...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
	s := CallersTLS{TLSCert: "c", TLSKey: "k", TLSExcept: "auth"}
	for at, want := range map[[2]string]bool{
		{"http", ":8080"}: true, {"http", "127.0.0.1:8080"}: true, {"http", "unix:///s"}: false, {"auth", ":8082"}: false, {"usage", ":8083"}: true,
	} {
		if s.Secures(at[0], at[1]) != want {
			t.Errorf("%v: %v", at, !want)
		}
	}
	if (&CallersTLS{}).Secures("http", ":8080") {
		t.Error("without a certificate")
	}
}

// TestOpensLimits: beyond this machine nobody names limits or gives back, unless that is
// said.
func TestOpensLimits(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		callers Callers
		addr    string
		want    bool
	}{
		{Callers{}, ":8080", false}, {Callers{}, "0.0.0.0:8080", false}, {Callers{}, "[::]:8080", false}, {Callers{}, "10.0.0.1:1", false},
		{Callers{}, "127.0.0.1:8080", true}, {Callers{}, "localhost:8080", true}, {Callers{}, "[::1]:8080", true}, {Callers{}, "unix:///s", true},
		{Callers{}, "localhost.example:1", false}, {Callers{}, "bad", false},
		{Callers{CallerLimits: &yes}, ":8080", true}, {Callers{CallerLimits: &no}, "127.0.0.1:1", false},
		{Callers{Callers: "f"}, "127.0.0.1:1", false},
	} {
		if got := c.callers.OpensLimits(c.addr); got != c.want {
			t.Errorf("%+v at %s: %v", c.callers, c.addr, got)
		}
	}
}
