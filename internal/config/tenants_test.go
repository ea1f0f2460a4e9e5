package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestBadTenantSettings(t *testing.T) {
	for _, test := range []struct{ want, args string }{
		{"--tenants: not the address of a database", "--tenants=mysql://u:hunter2@h/d"},
		{"--tenants-file: there is no database", "--tenants-file=/tmp/x"},
		{"--tenants-replica: there is no database", "--tenants-replica=postgres://u:hunter2@h/d"},
		{"--tenants-replica: not the address of a PostgreSQL", "--tenants=postgres://u:hunter2@h/d --tenants-replica=sqlite:///t.db"},
		{"--tenants-replica: --tenants is no PostgreSQL", "--tenants=sqlite:///t.db --tenants-replica=postgresql://u:hunter2@h/d"},
	} {
		s, err := parse(t, strings.Fields(test.args)...)
		if err == nil {
			err = s.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", test.args, err, test.want)
		}
	}
}

// The password of the database is in no way of printing the settings.
func TestTenantSettingsHideThePassword(t *testing.T) {
	s, err := parse(t, "--tenants=postgres://u:hunter2@h/d", "--tenants-replica=postgres://u:hunter2@r/d", "--tiers=t.yaml", "--tenants-file=f")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, s); strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", format, text)
		}
	}
}
