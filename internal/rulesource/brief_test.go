package rulesource

import (
	"errors"
	"strings"
	"testing"
)

func TestBriefErrors(t *testing.T) {
	if got := Brief(errors.New("a\nb")); got != "a | b" {
		t.Errorf("%q", got)
	}
	got := Brief(errors.New(strings.Repeat("wrong\n", 999) + "wrong"))
	if len(got) > 200 || !strings.Contains(got, "and 995 more errors; hint: headgate rules validate") {
		t.Errorf("%q", got)
	}
}
