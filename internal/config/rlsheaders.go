package config

import (
	"errors"
	"fmt"
)

// RLSHeaderNames are the names of the header fields that Envoy is asked to add with
// --rls-headers envoy.
type RLSHeaderNames struct {
	RLSLimitHeader     string `group:"answers" name:"rls-limit-header" default:"RateLimit-Limit" placeholder:"HEADER" help:"Name of the header field of the limit with --rls-headers envoy. Default ${default}."`
	RLSRemainingHeader string `group:"answers" name:"rls-remaining-header" default:"RateLimit-Remaining" placeholder:"HEADER" help:"Name of that of what remains of it. Default ${default}."`
	RLSResetHeader     string `group:"answers" name:"rls-reset-header" default:"RateLimit-Reset" placeholder:"HEADER" help:"Name of that of the time until it is reset. Default ${default}."`
}

func (n *RLSHeaderNames) validate(headers string) error {
	var problems []error
	for _, f := range []struct{ name, field, value string }{
		{"rls-limit-header", "RLSLimitHeader", n.RLSLimitHeader}, {"rls-remaining-header", "RLSRemainingHeader", n.RLSRemainingHeader}, {"rls-reset-header", "RLSResetHeader", n.RLSResetHeader},
	} {
		switch {
		case f.value == "" || f.value == defaultOf[RLSHeaderNames](f.field):
		case !isHeader(f.value):
			problems = append(problems, fmt.Errorf("--%s: not the name of a header field; hint: letters, digits and dashes, at most %d", f.name, maxHeader))
		case headers != "envoy":
			problems = append(problems, fmt.Errorf("--%s: Envoy is asked to add no such field; hint: --rls-headers envoy, or leave it out", f.name))
		}
	}
	return errors.Join(problems...)
}
