package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memcachestore"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/store/redisstore/doctor"
)

type storeDoctorCmd struct {
	Store   config.StoreURL `required:"" placeholder:"URL" help:"The store: redis://, rediss://, unix://, redis+sentinel://, redis+cluster://, memcached:// or memory://."`
	Budget  time.Duration   `default:"20ms" env:"HEADGATE_STORE_BUDGET" help:"What a request may wait for the store, to judge its answers by."`
	Timeout time.Duration   `default:"2s" env:"-" help:"Longest wait for one answer."`
	JSON    bool            `name:"json" env:"-" help:"Print JSON."`
}

// maxCheckup bounds all checks of a store together, in answers.
const maxCheckup = 60

// Help implements kong.HelpProvider.
func (*storeDoctorCmd) Help() string {
	return `Example:

  headgate store doctor --store redis://user:password@redis.internal:6379/0

The URL is that of headgate serve, with what its query says of certificates, files of
passwords and the prefix. It looks the host up, connects, speaks TLS and looks at the
certificates of both sides, presents the password, asks what kind of server it is, tries the scripts, and looks at eviction, memory, replicas, the
clock and the time that answers take; each server of a cluster for itself. One key
is written for a moment. The exit code is 0 when nothing keeps the store from
deciding, and 1 when something does; warnings are no problems.`
}

// reportJSON is the form of --json.
type reportJSON struct {
	Store  string        `json:"store"`
	OK     bool          `json:"ok"`
	Checks []store.Check `json:"checks"`
}

// Run makes the checks.
func (c *storeDoctorCmd) Run(std *stdio) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxCheckup*c.Timeout)
	defer cancel()
	report, err := c.diagnose(ctx)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if c.JSON {
		encoder := json.NewEncoder(std.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(reportJSON{report.Store, report.OK(), report.Checks})
	} else {
		err = printCheckup(std.out, report)
	}
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if !report.OK() {
		return &codeError{exitNo, nil}
	}
	return nil
}

// diagnose asks the doctor of the store that was named.
func (c *storeDoctorCmd) diagnose(ctx context.Context) (store.Report, error) {
	u := c.Store
	if err := u.Check(); err != nil {
		return store.Report{}, err
	}
	switch u.Scheme() {
	case "memory":
		return store.Report{Store: u.String(), Checks: []store.Check{{
			Name: "memory", Status: store.CheckOK, Found: "nothing to connect to: counters live in the process",
			Hint: "several processes need a store that they share, such as redis://",
		}}}, nil
	case "memcached":
		o, err := memcachestore.ParseURL(u.Reveal())
		if err != nil {
			return store.Report{}, fmt.Errorf("--store: %w", err)
		}
		o.DialTimeout, o.Budget = c.Timeout, c.Budget
		return memcachestore.Diagnose(ctx, o), nil
	}
	o, err := redisstore.ParseURL(u.Reveal())
	if err != nil {
		return store.Report{}, fmt.Errorf("--store: %w", err)
	}
	o.DialTimeout, o.Budget = c.Timeout, c.Budget
	return doctor.Diagnose(ctx, o), nil
}

// printCheckup writes a table: one line for each check, its hint below. The servers are
// headings.
func printCheckup(w io.Writer, r store.Report) error {
	var b strings.Builder
	fmt.Fprintln(&b, r.Store)
	count := map[string]int{}
	server := ""
	for _, c := range r.Checks {
		count[c.Status]++
		if c.Server != server {
			server = c.Server
			if server != "" {
				fmt.Fprintf(&b, "\n%s\n", server)
			} else {
				fmt.Fprintln(&b)
			}
		}
		fmt.Fprintf(&b, "  %-8s %-12s %s\n", c.Status, c.Name, c.Found)
		if c.Hint != "" {
			fmt.Fprintf(&b, "  %-8s %-12s hint: %s\n", "", "", c.Hint)
		}
	}
	fmt.Fprintf(&b, "\nproblems: %d, warnings: %d\n", count[store.CheckProblem], count[store.CheckWarning])
	_, err := io.WriteString(w, b.String())
	return err
}
