package vectors

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
)

// monday is the day of instants that name only a time.
var monday = time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)

// Parse reads the scenarios of a script. Errors name file and line.
func Parse(file, text string) ([]Scenario, error) {
	p := parser{file: file, names: map[string]bool{}}
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		if err := p.parseLine(withoutComment(line)); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, p.line, err)
		}
	}
	return p.scenarios, nil
}

// Record returns text with the decisions of its steps replaced by those of a Bucket; each
// scenario has one of its own. All else stays as it is.
func Record(file, text string) (string, error) {
	scenarios, err := Parse(file, text)
	if err != nil {
		return "", err
	}
	lines := strings.Split(text, "\n")
	for _, scenario := range scenarios {
		var bucket Bucket
		for _, step := range scenario.Steps {
			d, err := bucket.Take(step)
			if err != nil {
				return "", fmt.Errorf("%s:%d: %w", file, step.Line, err)
			}
			if step.Op != Reset {
				lines[step.Line-1] = recorded(lines[step.Line-1], formatDecision(step.Limit, d))
			}
		}
	}
	return strings.Join(lines, "\n"), nil
}

// recorded replaces the decision of a line, keeping its comment.
func recorded(line, decision string) string {
	code := withoutComment(line)
	comment := strings.TrimSpace(line[len(code):])
	todo, _, found := strings.Cut(code, "=>")
	if !found {
		todo = strings.TrimRight(todo, " \t") + " "
	}
	line = todo + "=> " + decision
	if comment != "" {
		line += "  " + comment
	}
	return line
}

func withoutComment(line string) string {
	if strings.HasPrefix(line, "#") {
		return ""
	}
	for _, mark := range [...]string{" #", "\t#"} {
		if i := strings.Index(line, mark); i >= 0 {
			line = line[:i]
		}
	}
	return line
}

// parser holds what a line depends on.
type parser struct {
	file      string
	line      int
	names     map[string]bool
	scenarios []Scenario
	limit     *limit.Limit
	now       time.Time
}

func (p *parser) parseLine(line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil
	}
	if words[0] != "scenario" && len(p.scenarios) == 0 {
		return errors.New("nothing may come before the first scenario; hint: begin with \"scenario NAME\"")
	}
	switch words[0] {
	case "scenario":
		return p.parseScenario(strings.Join(words[1:], " "))
	case "limit":
		l, err := parseLimit(words[1:])
		p.limit = l
		return err
	case "at":
		step, err := p.parseStep(words[1:])
		if err != nil {
			return err
		}
		current := &p.scenarios[len(p.scenarios)-1]
		current.Steps = append(current.Steps, step)
		return nil
	}
	return fmt.Errorf("unknown line %q; hint: lines begin with scenario, limit, at or #", words[0])
}

func (p *parser) parseScenario(name string) error {
	if name == "" {
		return errors.New("scenario has no name")
	}
	if p.names[name] {
		return fmt.Errorf("scenario %q is there already; hint: names are unique in a file", name)
	}
	p.names[name] = true
	p.limit, p.now = nil, monday
	p.scenarios = append(p.scenarios, Scenario{File: p.file, Line: p.line, Name: name})
	return nil
}

// parseLimit reads "ALGORITHM QUOTA per PERIOD [option...]".
func parseLimit(words []string) (*limit.Limit, error) {
	if len(words) < 4 || words[2] != "per" {
		return nil, errors.New("incomplete limit; hint: limit ALGORITHM QUOTA per PERIOD")
	}
	algorithm, err := limit.ParseAlgorithm(words[0])
	if err != nil {
		return nil, err
	}
	spec := limit.Spec{Algorithm: algorithm}
	if spec.Quota, err = parseCount(words[1]); err != nil {
		return nil, err
	}
	unit, notUnit := limit.ParseCalendarUnit(words[3])
	if notUnit != nil {
		if spec.Period, err = parseDuration(words[3]); err != nil {
			return nil, err
		}
	}
	zone := ""
	for _, word := range words[4:] {
		if name, value, _ := strings.Cut(word, "="); name == "zone" && notUnit == nil {
			zone = value
		} else if err := parseOption(&spec, name, value); err != nil {
			return nil, err
		}
	}
	if notUnit == nil {
		if spec.Calendar, err = limit.NewCalendar(unit, zone); err != nil {
			return nil, err
		}
	}
	return limit.New(spec)
}

func parseOption(spec *limit.Spec, name, value string) (err error) {
	switch name {
	case "burst":
		spec.Burst, err = parseCount(value)
	case "parts":
		spec.SubWindows, err = strconv.Atoi(value)
	case "strict":
		spec.Strict = true
	case "max_delay":
		spec.MaxDelay, err = parseDuration(value)
	case "max_queue":
		spec.MaxQueue, err = parseCount(value)
	case "count_denied":
		spec.CountDenied = true
	case "for":
		spec.BanFor, err = parseDuration(value)
	case "on_change":
		spec.Carry, err = limit.ParseCarry(value)
	case "max_debt":
		spec.MaxDebt, err = parseCount(value)
	default:
		return fmt.Errorf("unknown option %q of a limit; hint: burst=, parts=, strict, max_delay=, max_queue=, count_denied, for=, on_change=, max_debt=, zone= (with day, week, month, year)", name)
	}
	return err
}

// parseStep reads "INSTANT OPERATION [=> decision]".
func (p *parser) parseStep(words []string) (Step, error) {
	if p.limit == nil {
		return Step{}, errors.New("step has no limit; hint: a limit line must come before it")
	}
	if len(words) < 2 {
		return Step{}, errors.New("incomplete step; hint: at INSTANT hits=N => allow remaining=N")
	}
	now, err := parseInstant(words[0], p.now)
	if err != nil {
		return Step{}, err
	}
	p.now = now
	step := Step{Line: p.line, Limit: p.limit, Now: limit.MicrosOf(now)}
	if err := parseOp(&step, words[1]); err != nil {
		return Step{}, err
	}
	if len(words) == 2 {
		return step, nil
	}
	if step.Op == Reset {
		return Step{}, errors.New("a reset has no answer")
	}
	if words[2] != "=>" || len(words) == 3 {
		return Step{}, errors.New("incomplete step; hint: at INSTANT hits=N => allow remaining=N")
	}
	step.Want, err = parseDecision(words[3:], p.limit.Quota)
	return step, err
}

// parseOp reads "hits=N|refund=N|charge=N|acquire=HOLD|renew=HOLD|release=HOLD|reset".
func parseOp(step *Step, word string) error {
	verb, number, numbered := strings.Cut(word, "=")
	op := slices.Index(ops[:], verb)
	if op < 0 || numbered == (Op(op) == Reset) {
		return fmt.Errorf("unknown operation %q; hint: hits=N, refund=N, charge=N, acquire=HOLD, renew=HOLD, release=HOLD or reset", word)
	}
	step.Op = Op(op)
	if step.Op == Reset {
		return nil
	}
	n, err := parseCount(number)
	switch step.Op {
	case Hit, Refund, Charge:
		step.Hits = n
		return err
	case Acquire:
		step.Hits = 1
	}
	if err == nil && step.Limit.Algorithm != limit.Concurrency {
		return fmt.Errorf("%v has no slots; hint: limit concurrency QUOTA per TIMEOUT", step.Limit.Algorithm)
	}
	step.Hold = limit.Hold(n)
	return err
}

func parseDecision(words []string, quota int64) (*limit.Decision, error) {
	d := limit.Decision{Limit: quota}
	switch words[0] {
	case "allow":
		d.Allowed = true
	case "deny":
	case "never":
		d.Never = true
	default:
		return nil, fmt.Errorf("unknown verdict %q; hint: allow, deny or never", words[0])
	}
	for _, word := range words[1:] {
		var err error
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "limit":
			d.Limit, err = parseCount(value)
		case "remaining":
			d.Remaining, err = parseCount(value)
		case "reset":
			d.ResetAfter, err = parseDuration(value)
		case "retry":
			d.RetryAfter, err = parseDuration(value)
		case "delay":
			d.Delay, err = parseDuration(value)
		default:
			err = fmt.Errorf("unknown part %q of a decision; hint: limit=, remaining=, reset=, retry=, delay=", name)
		}
		if err != nil {
			return nil, err
		}
	}
	return &d, nil
}

// parseInstant reads an instant; before is that of the step before.
func parseInstant(text string, before time.Time) (time.Time, error) {
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		by, err := parseDuration(text)
		return before.Add(by), err
	}
	if t, err := time.Parse("15:04:05.999999", text); err == nil {
		return monday.Add(t.Sub(t.Truncate(24 * time.Hour))), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("instant %q is not understood; hint: 12:00:59, 2026-06-01T12:00:59Z, +1s or -1h", text)
	}
	return t, nil
}

// parseDuration reads a duration of Go, or whole days as "3d".
func parseDuration(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		const most = math.MaxInt64 / (24 * time.Hour)
		n, err := strconv.ParseInt(days, 10, 64)
		if err != nil || n > int64(most) || n < -int64(most) {
			return 0, fmt.Errorf("duration %q is not understood; hint: 250ms, 1m30s or 3d", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("duration %q is not understood; hint: 250ms, 1m30s or 3d", text)
	}
	return d, nil
}

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a count", text)
	}
	return n, nil
}
