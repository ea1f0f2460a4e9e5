package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/store/memcachestore"
	"github.com/headgate/headgate/store/redisstore"
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

It looks the host up, connects, speaks TLS, presents the password, asks what kind
of server it is, tries the scripts, and looks at eviction, memory, replicas, the
clock and the time that answers take; each server of a cluster for itself. One key
is written for a moment. The exit code is 0 when nothing keeps the store from
deciding, and 1 when something does; warnings are no problems.`
}

// checkup is what the doctor says, and the form of --json.
type checkup struct {
	Store  string             `json:"store"`
	OK     bool               `json:"ok"`
	Checks []redisstore.Check `json:"checks"`
}

// Run makes the checks.
func (c *storeDoctorCmd) Run(std *stdio) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxCheckup*c.Timeout)
	defer cancel()
	result, err := c.checkup(ctx)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if c.JSON {
		encoder := json.NewEncoder(std.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(result)
	} else {
		err = result.print(std.out)
	}
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if !result.OK {
		return &codeError{exitNo, nil}
	}
	return nil
}

// checkup asks the store that was named.
func (c *storeDoctorCmd) checkup(ctx context.Context) (checkup, error) {
	u := c.Store
	if err := u.Check(); err != nil {
		return checkup{}, err
	}
	switch u.Scheme() {
	case "memory":
		return checkup{Store: u.String(), OK: true, Checks: []redisstore.Check{{
			Name: "memory", Status: redisstore.CheckOK, Found: "nothing to connect to: counters live in the process",
			Hint: "several processes need a store that they share, such as redis://",
		}}}, nil
	case "memcached":
		o, err := memcachestore.ParseURL(u.Reveal())
		if err != nil {
			return checkup{}, fmt.Errorf("--store: %w", err)
		}
		o.DialTimeout, o.Budget = c.Timeout, c.Budget
		r := memcachestore.Diagnose(ctx, o)
		result := checkup{Store: r.Store, OK: r.OK()}
		for _, one := range r.Checks {
			result.Checks = append(result.Checks, redisstore.Check(one))
		}
		return result, nil
	}
	o, err := redisstore.ParseURL(u.Reveal())
	if err != nil {
		return checkup{}, fmt.Errorf("--store: %w", err)
	}
	o.DialTimeout, o.Budget = c.Timeout, c.Budget
	r := redisstore.Diagnose(ctx, o)
	return checkup{Store: r.Store, OK: r.OK(), Checks: r.Checks}, nil
}

// print writes a table: one line for each check, its hint below. The servers are
// headings.
func (r *checkup) print(w io.Writer) error {
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
	fmt.Fprintf(&b, "\nproblems: %d, warnings: %d\n", count[redisstore.CheckProblem], count[redisstore.CheckWarning])
	_, err := io.WriteString(w, b.String())
	return err
}
