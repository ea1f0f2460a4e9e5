package config

import (
	"strings"
	"testing"
)

func TestBadObservingSettings(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--denial-lines=-1"}, "--denial-lines: -1 is out of range; hint: from 0 to 1000"},
		{[]string{"--top-keys=5000"}, "--top-keys: 5000 is out of range; hint:"},
		{[]string{"--accuracy-sample=2"}, "--accuracy-sample: 2 is out of range; hint:"},
		{[]string{"--audit-sample=-0.1"}, "--audit-sample: -0.1 is out of range; hint:"},
		{[]string{"--audit-buffer=1"}, "--audit-buffer: 1 is out of range; hint:"},
		{[]string{"--audit-files=/var/log"}, "--audit-files: unknown kind of place; hint: the URL begins with file://"},
		{[]string{"--audit-kafka=none"}, "--audit-kafka: unknown kind of place; hint: the URL begins with kafka://"},
		{[]string{"--audit-kafka=file:///var/log"}, "--audit-kafka: unknown kind of place; hint: the URL begins with kafka://"},
		{[]string{"--audit-kafka=kafka://u:se%cret@h/t"}, "--audit-kafka: not a URL; hint:"},
		{[]string{"--trace-endpoint=localhost:4318"}, "--trace-endpoint: unknown kind of place; hint: the URL begins with http://"},
		{[]string{"--metrics-endpoint=localhost:4318"}, "--metrics-endpoint: unknown kind of place; hint: the URL begins with http://"},
		{[]string{"--metrics-interval=10ms"}, "--metrics-interval: 10ms is out of range; hint: from 1s to 1h"},
		{[]string{"--trace-ratio=0.1"}, "--trace-ratio: there is no collector for traces; hint:"},
		{[]string{"--prometheus-url=localhost:9090"}, "--prometheus-url: unknown kind of place; hint: the URL begins with http://, https://"},
		{[]string{"--prometheus-url=http://u:se%cret@h"}, "--prometheus-url: not a URL; hint:"},
		{[]string{"--prometheus-url=http:///api"}, "--prometheus-url: not the address of a Prometheus; hint:"},
		{[]string{"--prometheus-url=http://h:1/?token=x"}, "--prometheus-url: not the address of a Prometheus; hint:"},
		{[]string{"--prometheus-url=http://u:p@h:1", "--prometheus-token-file=f"}, "--prometheus-url, --prometheus-token-file: a password and a token; hint:"},
		{[]string{"--prometheus-token-file=f"}, "--prometheus-token-file: nothing comes of it without --prometheus-url"},
		{[]string{"--prometheus-url=http://h:1"}, "--prometheus-url: nothing comes of it without --admin-addr, because neither the admin API nor the dashboard is served; hint:"},
		{[]string{"--prometheus-url=http://h:1", "--roles=decide"}, "--prometheus-url: this process has not the role admin (--roles decide); hint:"},
		{[]string{"--prometheus-url=http://h:1", "--roles=dashboard", "--dashboard-addr=:1", "--admin-urls=http://127.0.0.1:2"}, "--prometheus-url: this process has not the role admin (--roles dashboard); hint:"},
		{[]string{"--decision-id=X Id"}, "--decision-id: not the name of a header field; hint:"},
		{[]string{"--node-name=a\nb"}, "--node-name: blanks and control characters"},
		{[]string{"--dashboard-addr=:1"}, "--admin-tokens: nobody could log in to the dashboard; hint:"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-tls-key=k"}, "--dashboard-tls-cert, --dashboard-tls-key: one without the other"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-client-ca=c"}, "--dashboard-client-ca: certificates of browsers need TLS; hint:"},
		{[]string{"--dashboard-oidc-issuer=https://i", "--dashboard-oidc-client=c", "--dashboard-url=https://d"}, "--dashboard-oidc-issuer: nothing comes of it without --dashboard-addr"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-url=https://d", "--dashboard-oidc-secret=f"}, "--dashboard-url, --dashboard-oidc-secret: nothing comes of it without --dashboard-oidc-issuer"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-oidc-issuer=https://i", "--dashboard-url=https://d"}, "--dashboard-oidc-client: missing; hint:"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-oidc-issuer=https://i", "--dashboard-oidc-client=c"}, "--dashboard-url: no address of the dashboard"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-oidc-issuer=https://i", "--dashboard-oidc-client=c", "--dashboard-url=https://u:se%cret@d"}, "--dashboard-url: no address of the dashboard"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-oidc-issuer=https://i", "--dashboard-oidc-client=c", "--dashboard-url=https://d/headgate"}, "with no path"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-oidc-issuer=https://i", "--dashboard-oidc-client=c", "--dashboard-url=d.example"}, "--dashboard-url: no address of the dashboard"},
		{[]string{"--dashboard-addr=:1", "--admin-tokens=t", "--dashboard-session=1s"}, "--dashboard-session: 1s is out of range; hint:"},
	} {
		s, err := parse(t, tt.args...)
		if err == nil {
			err = s.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "se%cret") {
			t.Errorf("%v: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}
