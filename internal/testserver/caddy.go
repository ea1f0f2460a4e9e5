package testserver

import "testing"

// Caddy starts a Caddy by a Caddyfile.
func Caddy(t testing.TB, c GatewayConfig) *Gateway {
	t.Helper()
	return startGateway(t, gatewayKind{
		binary: "caddy",
		file:   "Caddyfile",
		args:   func(string) []string { return []string{"run", "--config", "Caddyfile"} },
		env: func(dir string) []string {
			return []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}
		},
	}, c)
}
