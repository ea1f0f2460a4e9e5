package config

import (
	"strings"
	"testing"
)

func TestRoles(t *testing.T) {
	admin := []string{"--admin-tokens", "t"}
	for _, c := range []struct {
		args string
		want string // of the error; "" is none
	}{
		{"", ""},
		{"--roles decide", ""},
		{"--roles decide --ops-addr= --grpc-addr=", ""},
		{"--roles admin,decide", ""},
		{"--roles admin --admin-addr :1", ""},
		{"--roles admin --admin-addr :1 --http-addr :8080", ""}, // the default says nothing
		{"--roles dashboard --dashboard-addr :1 --admin-urls https://a:1,https://b:1 --admin-tokens=", ""},
		{"--roles decide,dashboard --dashboard-addr :1 --admin-urls http://a:1", ""},
		{"--roles dashboard --dashboard-addr :1 --admin-urls https://a:1 --admin-tokens= --dashboard-url https://d --dashboard-oidc-issuer https://i --dashboard-oidc-client c", ""},

		{"--roles judge", `"judge" is none`},
		{"--roles decide,,admin", `"" is none`},
		{"--roles decide --http-addr= --grpc-addr=", "no address at which it could be asked"},
		{"--http-addr= --grpc-addr=", "no address at which it could be asked"},
		{"--roles decide --admin-addr :1", "--admin-addr: this process has not the role admin (--roles decide)"},
		{"--roles decide --dashboard-addr :1", "--dashboard-addr: this process has not the role dashboard"},
		{"--roles admin", "would serve nothing"},
		{"--roles dashboard", "would serve nothing"},
		{"--roles admin --admin-addr :1 --http-addr :9", "--http-addr: this process has not the role decide"},
		{"--roles admin --admin-addr :1 --grpc-addr :9", "--grpc-addr: this process has not the role decide"},
		{"--roles admin --admin-addr :1 --auth-addr :9", "--auth-addr: this process has not the role decide"},
		{"--roles dashboard --dashboard-addr :1", "--admin-urls: the dashboard of a process without the role admin has nobody to ask"},
		{"--roles dashboard --dashboard-addr :1 --admin-urls https://a:1 --tenants sqlite:///x", "--tenants: a dashboard that stands alone does not need it"},
		{"--roles dashboard --dashboard-addr :1 --admin-urls https://a:1 --store redis://x:1/0", "--store: a dashboard that stands alone does not need it"},
		{"--roles decide --admin-urls https://a:1 --snapshot-keys k --tenants-dir d", ""},
		{"--tenants sqlite:///t.db --tenants-dir d --admin-addr :1 --snapshot-sign-key k", ""},
		{"--snapshot-keys k", "there is nobody whose snapshots they could verify"},
		{"--snapshot-keys k --admin-urls https://a:1 --tenants sqlite:///t.db", "what the database says comes from --tenants"},
		{"--admin-urls-token t --admin-urls https://a:1", "this process asks for no snapshots"},
		{"--tenants-dir d", "there are no accounts that it could keep"},
		{"--tenants sqlite:///t.db --tenants-dir d --tenants-file f", "both keep what was read last"},
		{"--snapshot-sign-key k --admin-addr :1", "there is no database whose accounts could be published"},
		{"--snapshot-sign-key k --tenants sqlite:///t.db", "snapshots are published by the admin API"},
		{"--admin-urls ftp://a", "--admin-urls: number 1 is not the address"},
		{"--admin-urls https://a:1,https://b:1/x", "--admin-urls: number 2 is not the address"},
		{"--admin-urls https://u:secret@a:1", "--admin-urls: number 1 has a user in it"},
		{"--admin-urls http://a:1 --admin-urls-ca f", "none of --admin-urls is served by TLS"},
		{"--admin-urls https://a:1 --admin-urls-cert f", "one without the other"},
	} {
		args := strings.Fields(c.args)
		if !strings.Contains(c.args, "dashboard --dash") {
			args = append(append([]string{}, admin...), args...)
		}
		_, err := parse(t, args...) // which validates
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.args, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error has a password: %v", c.args, err)
		}
	}
}

func TestZeroRolesAreAll(t *testing.T) {
	if does, err := new(Duties).Does(); err != nil || does.String() != "decide,admin,dashboard" {
		t.Errorf("%v, %v", does, err)
	}
}
