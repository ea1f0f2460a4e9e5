package config

import (
	"strings"
	"testing"
)

func TestBadAdminSettings(t *testing.T) {
	good := []string{"--admin-addr=:9090", "--admin-tokens=tokens.yaml", "--tenants=sqlite:///t.db"}
	s, err := parse(t, good...)
	if err != nil || s.Validate() != nil {
		t.Fatal(err, s.Validate())
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--admin-addr=9090", "--admin-tokens=t", "--tenants=sqlite:///t.db"}, `--admin-addr: address "9090" is not host:port; hint:`},
		{[]string{good[0], good[2]}, "--admin-tokens: nobody could ask; hint:"},
		{append(good[:3:3], "--admin-tls-cert=c"), "--admin-tls-cert, --admin-tls-key: one without the other"},
		{append(good[:3:3], "--admin-client-ca=c"), "--admin-client-ca: certificates of clients need TLS; hint:"},
	} {
		s, err := parse(t, tt.args...)
		if err == nil {
			err = s.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}
