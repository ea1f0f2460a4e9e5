package app

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
)

// servedFronts returns the ways in of callers that s opens.
func servedFronts(s *config.Serve, does config.Does) []lint.Front {
	if !does.Decide {
		return nil
	}
	var served []lint.Front
	for _, f := range []struct {
		front lint.Front
		addr  string
	}{{lint.HTTP, s.HTTPAddr}, {lint.GRPC, s.GRPCAddr}, {lint.Auth, s.AuthAddr}, {lint.Redis, s.RedisAddr}} {
		if f.addr != "" {
			served = append(served, f.front)
		}
	}
	return served
}

// unserved says in one line what rules ask for and the fronts of this process cannot do,
// each thing with the first rule that asks for it. lint says it of every rule.
func (r *ruleReporter) unserved(set *rules.Set) {
	var texts []string
	told := make(map[string]bool) // by what is asked for, and where
	for _, u := range lint.Unserved(set, r.fronts...) {
		if text := u.String(); !told[text] {
			told[text] = true
			texts = append(texts, text+" (first rule "+u.Rule.ID+")")
		}
	}
	if i := slices.IndexFunc(set.Rules(), lint.NeedsHold); i >= 0 && slices.Contains(r.fronts, lint.HTTP) {
		texts = append(texts, "concurrency counts over http only checks with hold, so that all others pass (first rule "+set.Rules()[i].ID+")")
	}
	if len(texts) > 0 {
		r.logger.Warn("rules ask for what callers of this process do not get; hint: headgate rules lint --front names each rule and what to do", "unserved", strings.Join(texts, "; "))
	}
}
