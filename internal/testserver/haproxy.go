package testserver

import "testing"

// HAProxy starts an HAProxy. Lua files of its configuration are among the Files.
func HAProxy(t testing.TB, c GatewayConfig) *Gateway {
	t.Helper()
	return startGateway(t, gatewayKind{
		binary: "haproxy",
		file:   "haproxy.cfg",
		args:   func(string) []string { return []string{"-db", "-f", "haproxy.cfg"} },
	}, c)
}
