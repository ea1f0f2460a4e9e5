package testserver

import "testing"

// Traefik starts a Traefik by its static configuration, the file of which is traefik.yaml.
// Files with routes are among the Files. It may listen before it has read them.
func Traefik(t testing.TB, c GatewayConfig) *Gateway {
	t.Helper()
	return startGateway(t, gatewayKind{
		binary: "traefik",
		file:   "traefik.yaml",
		args:   func(string) []string { return []string{"--configFile=traefik.yaml"} },
		// Or it would ask the Internet for a newer version.
		prepare: func(text, _ string) string { return text + "\nglobal:\n  checkNewVersion: false\n" },
	}, c)
}
