package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestPeers(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"127.0.0.0/8,::1/128", "[127.0.0.0/8 ::1/128]"},
		{" 10.1.2.3 , 2001:db8::7 ", "[10.1.2.3/32 2001:db8::7/128]"},
		{"10.1.2.3/8", "[10.0.0.0/8]"},
	} {
		peers, err := (&Auth{AuthPeers: tt.text}).Peers()
		if got := fmt.Sprint(peers); err != nil || got != tt.want {
			t.Errorf("%q: %s, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

func TestBadAuthSettings(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--auth-addr=9091", `--auth-addr: address "9091" is not host:port; hint:`},
		{"--auth-peers=", `--auth-peers: "" is no network; hint:`},
		{"--auth-peers=10.0.0.0/8,gateway", `--auth-peers: "gateway" is no network; hint:`},
		{"--auth-peers=0.0.0.0/0", "--auth-peers: the whole Internet; hint:"},
		{"--auth-peers=::/0", "--auth-peers: the whole Internet; hint:"},
		{"--auth-peers=::ffff:10.0.0.0/104", "IPv4 in IPv6; hint:"},
		{"--auth-peers=fe80::1%eth0", "is no network; hint:"},
		{"--auth-peers=" + strings.Repeat("10.0.0.1,", maxNetworks) + "10.0.0.1", "more than 256 networks; hint:"},
	} {
		s, err := parse(t, tt.args)
		if err == nil {
			err = s.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60s: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}
