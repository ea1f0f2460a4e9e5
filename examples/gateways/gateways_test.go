// Package gateways holds configurations of gateways. Those of nginx, HAProxy, Caddy,
// Traefik and Envoy are run by the end-to-end tests; that of APISIX is read here.
package gateways

import (
	"bytes"
	"os"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/identityfile"
	"github.com/headgate/headgate/rules/rulefile"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// value returns what stands under keys in a file.
func value(t *testing.T, name string, keys ...string) string {
	t.Helper()
	loader, err := yaml.NewLoader(bytes.NewReader(read(t, name)), yaml.WithUniqueKeys())
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := loader.Load(&doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	at := doc.Content[0]
	for _, key := range keys {
		var next *yaml.Node
		for at.Kind == yaml.SequenceNode && len(at.Content) > 0 {
			at = at.Content[0]
		}
		for i := 0; i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == key {
				next = at.Content[i+1]
			}
		}
		if next == nil {
			t.Fatalf("%s: no %s", name, key)
		}
		at = next
	}
	return at.Value
}

func TestRulesAndIdentity(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: read(t, "rules.yaml")}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if domains := set.Domains(); len(domains) != 1 || len(set.Warnings()) > 0 {
		t.Errorf("domains %v, warnings %v: --auth-domain would be needed, or somebody puzzled", domains, set.Warnings())
	}
	if _, err := identityfile.Load(identityfile.Options{Path: "identity.yaml"}); err != nil {
		t.Error(err)
	}
}

// The configuration that no test runs asks at the right place.
func TestFileThatIsNotRun(t *testing.T) {
	if got := value(t, "apisix/apisix.yaml", "routes", "plugins", "forward-auth", "uri"); got != "http://127.0.0.1:9091/auth/apisix" {
		t.Errorf("APISIX asks at %s", got)
	}
}
