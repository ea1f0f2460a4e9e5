package cli

import (
	"errors"
	"testing"
)

func TestOnlyNear(t *testing.T) {
	for said, want := range map[string]string{
		`unexpected argument foo, did you mean "top"?`:                               `unexpected argument foo`,
		`unexpected argument toop, did you mean "top"?`:                              `unexpected argument toop, did you mean "top"?`,
		`unexpected argument t, did you mean one of "tail", "tier", "top"?`:          `unexpected argument t, did you mean one of "tail", "tier", "top"?`,
		`unexpected argument toop, did you mean one of "tail", "top"?`:               `unexpected argument toop, did you mean "top"?`,
		`unexpected argument foo, did you mean one of "top", "load"?`:                `unexpected argument foo`,
		`unknown flag --ruels, did you mean "--rules"?`:                              `unknown flag --ruels, did you mean "--rules"?`,
		`unknown flag --no, did you mean one of "--to", "--node-name", "--version"?`: `unknown flag --no, did you mean one of "--to", "--node-name"?`,
		`unexpected argument foo`:                                                    `unexpected argument foo`,
	} {
		if got := onlyNear(errors.New(said)).Error(); got != want {
			t.Errorf("%s: %s, want %s", said, got, want)
		}
	}
}
