package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/regionfile"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/rulefile"
)

type validateCmd struct {
	ruleFlags `embed:""`
	nodeFlag  `embed:""`
	Regions   string   `placeholder:"FILE" help:"The file of regions of the server: refuse rules that cannot hold over them, and say how each limit is cut."`
	Quiet     bool     `short:"q" env:"-" help:"Print only what is wrong."`
	Paths     []string `arg:"" name:"file_or_dir" help:"Rule files, directories of them, or - for standard input."`
}

// Help implements kong.HelpProvider.
func (*validateCmd) Help() string {
	return `Examples:

  headgate rules validate rules/
  headgate rules validate --compat envoy config/*.yaml
  headgate rules validate --regions regions.yaml rules/
  kubectl get configmap rules -o jsonpath='{.data.rules\.yaml}' | headgate rules validate -

For each rule it prints where it stands, its limits, what its consistency mode
promises, and what applies that the file does not say. The exit code is 1 when the files would be refused, and 2
when they cannot be read: absent, too large, or too many.`
}

// Run loads the files and prints the rules.
func (c *validateCmd) Run(std *stdio) error {
	if err := c.nodeFlag.validate(); err != nil {
		return err
	}
	regions, err := c.loadRegions()
	if err != nil {
		return err
	}
	set, files, err := c.load(std, c.Paths...)
	if err != nil {
		return err
	}
	if err := fitRegions(set, regions); err != nil {
		return err
	}
	for _, w := range set.Warnings() {
		printDiagnostic(std.err, w, files)
	}
	if c.Quiet {
		return nil
	}
	return c.print(std.out, set, otherDefaults(files, c.options()), regions)
}

// loadRegions reads the file of regions; nil if none is named.
func (c *validateCmd) loadRegions() (*regionfile.Regions, error) {
	if c.Regions == "" {
		return nil, nil
	}
	regions, err := regionfile.Load(c.Regions)
	return regions, usageIf(err)
}

// fitRegions returns which rules cannot hold over the regions. Without a file of them nobody
// knows.
func fitRegions(set *rules.Set, regions *regionfile.Regions) error {
	if regions == nil {
		return nil
	}
	var problems []error
	for _, r := range set.Rules() {
		if err := regions.Fit(r); err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: rule %s: %w", r.File, r.Line, r.ID, err))
		}
	}
	return errors.Join(problems...)
}

// overRegions says what r promises over all regions; "" where it counts in each by itself.
func overRegions(r *rules.Rule, regions *regionfile.Regions) string {
	if regions == nil && r.Mode.Regions != rules.RegionsEach {
		return "over all regions: nobody has said which there are, so no figures, and it is not tried whether the limit can hold; hint: --regions FILE"
	}
	return regions.Promise(r)
}

// otherDefaults loads files with the other set of defaults. What is different
// then was not said by the files. It returns nil if the files cannot be read
// that way.
func otherDefaults(files []rulefile.File, o rulefile.Options) *rules.Set {
	o.Compat = !o.Compat
	other, err := rulefile.Load(files, o)
	if err != nil {
		return nil
	}
	return other
}

func (c *validateCmd) print(w io.Writer, set, other *rules.Set, regions *regionfile.Regions) error {
	byWhat := "by default"
	if set.Compat() {
		byWhat = "by --compat envoy"
	}
	var others []*rules.Rule
	if other != nil {
		others = other.Rules()
	}
	list := set.Rules()
	for i, r := range list {
		if _, err := fmt.Fprintf(w, "%s:%d: %s\n    %s\n", r.File, r.Line, r.ID, describe.Summary(r)); err != nil {
			return err
		}
		if shift := describe.ScheduleText(r, time.Now()); shift != "" {
			fmt.Fprintf(w, "    %s\n", shift)
		}
		if promise := describe.Promise(r, c.Nodes); promise != "" {
			fmt.Fprintf(w, "    %s\n", promise)
		}
		if promise := overRegions(r, regions); promise != "" {
			fmt.Fprintf(w, "    %s\n", promise)
		}
		if promise := describe.FailurePromise(r, c.Nodes); promise != "" {
			fmt.Fprintf(w, "    %s\n", promise)
		}
		if len(others) != len(list) {
			continue
		}
		if unsaid := defaulted(r, others[i]); len(unsaid) > 0 {
			fmt.Fprintf(w, "    %s: %s\n", byWhat, strings.Join(unsaid, ", "))
		}
	}
	_, err := fmt.Fprintf(w, "valid: rules %d, domains %d, version %s\n", set.NumRules(), len(set.Domains()), set.Version())
	return err
}

// defaulted names what applies to r only by default, given the same rule with
// other defaults.
func defaulted(r, other *rules.Rule) []string {
	var unsaid []string
	add := func(text string) {
		for _, have := range unsaid {
			if have == text {
				return
			}
		}
		unsaid = append(unsaid, text)
	}
	for i := range min(len(r.Limits), len(other.Limits)) {
		if l := r.Limits[i]; l.Algorithm != other.Limits[i].Algorithm {
			add(l.Algorithm.String())
		}
	}
	for i := range min(len(r.Limits), len(other.Limits)) {
		if l := r.Limits[i]; l.CountDenied != other.Limits[i].CountDenied {
			add(charging(l.CountDenied))
		}
	}
	if r.Match() != other.Match() {
		add("match " + r.Match().String())
	}
	if r.Consumption() != other.Consumption() {
		add(r.Consumption().String())
	}
	return unsaid
}

func charging(countDenied bool) string {
	if countDenied {
		return "denied hits charged"
	}
	return "denied hits not charged"
}
