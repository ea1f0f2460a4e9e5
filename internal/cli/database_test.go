package cli

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// TestDatabaseRefusesWithHint: a command says what to do about a login that PostgreSQL refuses.
func TestDatabaseRefusesWithHint(t *testing.T) {
	address, err := url.Parse(testserver.Postgres(t).DSN)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword("nobody", "hunter2")
	t.Setenv("HEADGATE_TENANTS", address.String())
	var out, told bytes.Buffer
	code := Run([]string{"quota", "list"}, nil, &out, &told)
	if code != exitUsage || !strings.Contains(told.String(), "headgate: hint: check user and password\n") || strings.Contains(told.String(), "hunter2") {
		t.Errorf("exit code %d, %s", code, told.String())
	}
}
