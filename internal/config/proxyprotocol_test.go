package config

import (
	"strings"
	"testing"
)

func TestProxyProtocol(t *testing.T) {
	for _, test := range []struct{ listeners, from, want string }{
		{"", "", ""},
		{"http, auth", "10.0.0.0/8,192.0.2.1", ""},
		{"http", "", "nobody may send the header"},
		{"", "10.0.0.0/8", "no listener stands behind"},
		{"http", "10.0.0.0/99", "no network"},
		{"http", "0.0.0.0/0", "the whole Internet"},
		{"http,htpp", "10.0.0.0/8", `no listener "htpp"; hint: this process has http, auth, ops`},
		{"http,", "10.0.0.0/8", `no listener ""`},
	} {
		s := LoadBalancers{ProxyProtocol: test.listeners, ProxyProtocolFrom: test.from}
		err := s.validate()
		if err == nil {
			err = s.CheckListeners([]string{"http", "auth", "ops"})
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q from %q: %v, want %q", test.listeners, test.from, err, test.want)
		}
	}
	s := LoadBalancers{ProxyProtocol: "http, auth"}
	if !s.Behind("http") || !s.Behind("auth") || s.Behind("ops") || new(LoadBalancers).Behind("") {
		t.Error("which listeners stand behind a load balancer")
	}
}
