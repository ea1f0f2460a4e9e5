package testserver

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Nginx starts an nginx, of one process and without an access log.
func Nginx(t testing.TB, c GatewayConfig) *Gateway {
	t.Helper()
	return startGateway(t, gatewayKind{
		binary: "nginx",
		file:   "nginx.conf",
		args: func(dir string) []string {
			return []string{
				"-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr",
				"-g", "daemon off; master_process off; pid " + filepath.Join(dir, "pid") + ";",
			}
		},
		prepare: nginxFolders,
	}, c)
}

// nginxFolders puts the temporary folders of nginx, which are the system's, into dir.
func nginxFolders(text, dir string) string {
	var b strings.Builder
	b.WriteString("http {\n  access_log off;\n")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&b, "  %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	return strings.Replace(text, "http {\n", b.String(), 1)
}
