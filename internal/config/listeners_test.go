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
		{[]string{"--tls-cert=c", "--tls-key=k", "--tls-except=admin"}, "http, grpc, auth, redis, usage"},
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

// TestUnused: a setting that does nothing for want of another one is refused, with that
// one's name.
func TestUnused(t *testing.T) {
	for _, c := range []struct {
		args, want string // want is "" for none
	}{
		{"--usage-addr=:9000", "--usage-key"},
		{"--usage-addr=", ""},
		{"--usage-addr=:9000 --usage-key=k", ""},
		{"--tls-except=grpc", "--tls-cert"},
		{"--client-certs=optional", "--client-ca"},
		{"--auth-peers=10.0.0.0/8", "--auth-addr"},
		{"--auth-domain=d", "--auth-addr"},
		{"--auth-domain=d --auth-peers=10.0.0.0/8 --check-id-header=Id --auth-addr=:9091", ""},
		{"--check-id-header=Id", "--auth-addr"},
		{"--proxy-protocol-from=10.0.0.0/8", "--proxy-protocol"},
		{"--proxy-protocol-others=refuse", "--proxy-protocol"},
		{"--admin-tls-cert=c --admin-tls-key=k", "--admin-addr"},
		{"--admin-client-ca=c", "--admin-addr"},
		{"--dashboard-tls-cert=c --dashboard-tls-key=k", "--dashboard-addr"},
		{"--dashboard-client-ca=c", "--dashboard-addr"},
		{"--admin-urls-ca=c", "--admin-urls"},
		{"--admin-urls-cert=c --admin-urls-key=k", "--admin-urls"},
		{"--tls-cert=c --tls-key=k --http-addr=unix:///h --tls-except=grpc", "--tls-except"},
		{"--tls-cert=c --tls-key=k --http-addr=unix:///h --tls-except=grpc --auth-addr=:9091", ""},
		{"--roles=admin --admin-addr=:1 --admin-tokens=t --tls-cert=c --tls-key=k", "role decide"},
		{"--roles=admin --admin-addr=:1 --admin-tokens=t --usage-addr=:9000 --usage-key=k", "role decide"},
	} {
		_, err := parse(t, strings.Fields(c.args)...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
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
		if got := c.callers.OpensLimits(c.addr, false); got != c.want {
			t.Errorf("%+v at %s: %v", c.callers, c.addr, got)
		}
		if got, want := c.callers.OpensLimits(c.addr, true), c.callers.CallerLimits == &yes; got != want {
			t.Errorf("%+v at %s, behind a load balancer: %v", c.callers, c.addr, got)
		}
	}
}
