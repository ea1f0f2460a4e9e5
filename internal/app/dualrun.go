package app

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/dualrun"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/view"
)

// runBeside has envoy answer by an existing service, and compares its answers with what the
// rules of this process say, if the settings name one.
func (p *process) runBeside(s *config.DualRun, envoy *rls.Options) error {
	if !s.Beside() {
		return nil
	}
	conn, name, err := dualrun.Dial(s.DualRun.Reveal())
	if err != nil {
		return fmt.Errorf("--dual-run: %w", err)
	}
	own := *envoy
	// The old service lets all callers do all: so does what is compared with it.
	own.Checker = p.doors.openRaw("dual_run", headgate.Rights{Check: true, NameLimits: true, GiveBack: true, Reserve: true})
	service := dualrun.New(dualrun.Options{
		OnFailed: sometimes(p.logger.With("of", name).Warn, oneLine, "the old service of the dual run did not answer a call; Envoy has its error"),
		Of:       conn, Name: name, Decide: rls.NewDecider(own), Hash: p.watching.hasher.Hash, OnPanic: envoy.OnPanic, Hidden: isCallersToken,
	})
	envoy.Instead = service
	p.dualRun.Store(service)
	p.metrics.WatchDualRun(func() telemetry.DualRun { return dualRunOf(service.Report()) })
	p.logger.Warn("a dual run: Envoy gets the answers of another service, and the rules of this process deny nothing over gRPC", "of", name)
	p.atEnd = append(p.atEnd, func() {
		conn.Close()
		service.Wait()
		r := service.Report()
		p.logger.Info("the dual run has ended", "verdict", string(r.Verdict), "why", r.Why, "compared", r.Compared, "different", r.Different,
			"old_denied", r.OldDenied, "own_denied", r.OwnDenied, "old_failed", r.OldFailed, "own_failed", r.OwnFailed, "skipped", r.Skipped)
	})
	return nil
}

// isCallersToken reports whether metadata hold what a caller shows this process alone.
func isCallersToken(name, value string) bool {
	return name == strings.ToLower(callers.TokenHeader) || name == "authorization" && strings.Contains(value, callers.TokenPrefix)
}

// reportDualRun answers operators with what the dual run has found; 404 where there is none.
func (p *process) reportDualRun(w http.ResponseWriter, _ *http.Request) {
	service := p.dualRun.Load()
	if service == nil {
		problems.Answer(w, http.StatusNotFound, "there is no dual run; hint: --dual-run URL")
		return
	}
	writeJSON(w, http.StatusOK, service.Report())
}

// shownDualRun is what the admin API shows of the dual run.
func (p *process) shownDualRun() view.DualRun {
	v := view.DualRun{Causes: []view.DualRunCause{}, Places: []view.DualRunPlace{}, Examples: []view.DualRunExample{}}
	service := p.dualRun.Load()
	if service == nil {
		return v
	}
	r := service.Report()
	v.Of, v.Since, v.At, v.Verdict, v.Why = r.Of, r.Since, r.At, string(r.Verdict), r.Why
	v.Compared, v.Different, v.DifferentInPart, v.Skipped = r.Compared, r.Different, r.DifferentInPart, r.Skipped
	v.OldDenied, v.OwnDenied, v.OldFailed, v.OwnFailed = r.OldDenied, r.OwnDenied, r.OldFailed, r.OwnFailed
	v.Places, v.Examples = r.Places, r.Examples
	for _, c := range dualrun.Causes() {
		v.Causes = append(v.Causes, view.DualRunCause{Cause: string(c), Count: r.Causes[c]})
	}
	return v
}

func dualRunOf(r dualrun.Report) telemetry.DualRun {
	d := telemetry.DualRun{
		Compared: r.Compared, Different: r.Different, OldDenied: r.OldDenied, OwnDenied: r.OwnDenied,
		OldFailed: r.OldFailed, OwnFailed: r.OwnFailed, Skipped: r.Skipped, Causes: map[string]uint64{},
	}
	for _, c := range dualrun.Causes() {
		d.Causes[string(c)] = r.Causes[c]
	}
	return d
}
