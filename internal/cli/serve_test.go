package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
)

// TestVariablesOfAllCommandsAreKnown: whatever is served, the variables that any command
// takes, and those that documents name, are not called misspelt.
func TestVariablesOfAllCommandsAreKnown(t *testing.T) {
	parser := kong.Must(&root{}, kong.DefaultEnvars(config.EnvPrefix), kong.ExplicitGroups(groups))
	environ := []string{
		"HEADGATE_ADDR=a", "HEADGATE_ADMIN=b", "HEADGATE_ADMIN_TOKEN_FILE=c", "HEADGATE_GRPC_ADDR=d", "HEADGATE_TO=e", "HEADGATE_CONFIG=f", "HOME=/",
	}
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../examples/*/*.md", "../../examples/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range regexp.MustCompile("HEADGATE_[A-Z0-9_]+").FindAllString(string(text), -1) {
				// Tests of ours read these.
				if !slices.Contains([]string{"HEADGATE_URL", "HEADGATE_SIMULATION", "HEADGATE_HOTKEYS", "HEADGATE_SCALE_ACCOUNTS", "HEADGATE_EXPLORE", "HEADGATE_SEEDS"}, name) {
					environ = append(environ, name+"=1")
				}
			}
		}
	}
	// Kubernetes links a Service called headgate-admin.
	for _, link := range []string{
		"SERVICE_HOST=10.0.0.1", "SERVICE_PORT=80", "SERVICE_PORT_HTTP=80", "PORT=tcp://10.0.0.1:80", "PORT_80_TCP=tcp://10.0.0.1:80",
		"PORT_80_TCP_PROTO=tcp", "PORT_80_TCP_PORT=80", "PORT_80_TCP_ADDR=10.0.0.1",
	} {
		environ = append(environ, "HEADGATE_"+link, "HEADGATE_ADMIN_"+link)
	}
	environ = append(environ, "HEADGATE_HTTP_PORT=8080", "HEADGATE_PORT=8080", "HEADGATE_HTP_ADDR=g", "HEADGATE_=", "HEADGATE_http_addr=")
	if got, want := strayVariables(parser.Model.Node, environ), []string{"HEADGATE_HTTP_PORT", "HEADGATE_PORT", "HEADGATE_HTP_ADDR", "HEADGATE_", "HEADGATE_http_addr"}; !slices.Equal(got, want) {
		t.Errorf("stray: %q, want %q", got, want)
	}
}
