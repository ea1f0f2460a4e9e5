package cli

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/usageview"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

type quotaUsageCmd struct {
	adminFlags `embed:""`
	Names      []string `arg:"" name:"name" help:"tenant:ID, hash:HASH, entry:KEY:VALUE, or an API key with --hash-key."`
}

// Help implements kong.HelpProvider.
func (*quotaUsageCmd) Help() string {
	return `Example:

  headgate quota usage --admin http://127.0.0.1:9090 --admin-token-file token.txt tenant:acme

The counters are asked by way of the admin API of any process of the fleet. Nothing is
counted.`
}

// Run shows what was used.
func (c *quotaUsageCmd) Run(std *stdio) error {
	for i, text := range c.Names {
		path, err := c.usagePath(text)
		if err != nil {
			return err
		}
		raw, err := c.ask(http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		if i > 0 && !c.JSON {
			fmt.Fprintln(std.out)
		}
		if err := c.showUsage(std.out, raw); err != nil {
			return err
		}
	}
	return nil
}

// usagePath returns the path of the usage of the account that text names, hashed here
// where it is an API key.
func (f *adminFlags) usagePath(text string) (string, error) {
	hasher, err := readHasher(f.HashKey)
	if err != nil {
		return "", err
	}
	name, err := quotas.ParseName(text, hasher)
	if err != nil {
		return "", &codeError{exitUsage, err}
	}
	return "usage/" + url.PathEscape(quotas.NameText(name.Subject)), nil
}

// showUsage prints an answer of the admin API.
func (f *adminFlags) showUsage(w io.Writer, raw []byte) error {
	if f.JSON {
		_, err := fmt.Fprintf(w, "%s\n", bytes.TrimSuffix(raw, []byte("\n")))
		return err
	}
	var u usageview.Tenant
	if err := json.Unmarshal(raw, &u); err != nil || u.Name == "" {
		return &codeError{exitUsage, errors.New("the admin API does not say what was used; hint: does --admin name it?")}
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(table, "account\t%s\n", u.Name)
	if u.Tier != "" {
		fmt.Fprintf(table, "tier\t%s\n", u.Tier)
	}
	if u.StaleSeconds > 0 {
		fmt.Fprintf(table, "stale\ttold by a replica, which heard of its primary %ds ago or less\n", u.StaleSeconds)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	table = tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "DOMAIN\tDESCRIPTOR\tUSED\tLIMIT\tREMAINING\tRESETS AT\tSOURCE")
	for _, text := range descriptorsOf(u.Usage) {
		of := cmp.Or(u.Usage[text], &usageview.Quota{})
		if of.Limits == nil {
			of.Limits = []usageview.Count{of.Count}
		}
		for i := range of.Limits {
			printUsed(table, text, &of.Limits[i])
		}
	}
	if err := table.Flush(); err != nil || !u.Cut {
		return err
	}
	_, err := fmt.Fprintln(w, "and more quotas, which are not shown")
	return err
}

// descriptorsOf returns the descriptors in order, that of the tenant as a whole first.
func descriptorsOf(usage map[string]*usageview.Quota) []string {
	first := func(text string) bool { return text == tenant.DescriptorText(tenant.Default) }
	return slices.SortedFunc(maps.Keys(usage), func(a, b string) int {
		switch {
		case first(a):
			return -1
		case first(b):
			return 1
		}
		return strings.Compare(a, b)
	})
}

// printUsed prints what was used of one limit. The end of its window would say nothing here: of most algorithms the
// window ends now.
func printUsed(w io.Writer, descriptor string, u *usageview.Count) {
	used, most, left, resets := "-", "unlimited", "-", "-"
	if !u.Unlimited {
		used, left, most = numberText(u.Used), numberText(u.Remaining), numberText(u.Limit)+"/"+u.Unit
	}
	if u.ResetAt != nil && u.Used != nil && *u.Used > 0 {
		resets = u.ResetAt.UTC().Format(time.RFC3339)
	}
	source := u.Source
	if u.Degraded != "" {
		source += ", degraded: " + u.Degraded
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", u.Domain, descriptor, used, most, left, resets, source)
}

// numberText is "?" for what is not known.
func numberText(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

type quotaResetCmd struct {
	adminFlags `embed:""`
	Descriptor string `env:"-" placeholder:"DESCRIPTOR" help:"Only the quota for this, such as 'endpoint:POST /v1/orders', or 'default'. Default: all."`
	Domain     string `env:"-" help:"Only the quotas of this domain. Default: all."`
	Name       string `arg:"" help:"tenant:ID, hash:HASH, entry:KEY:VALUE, or an API key with --hash-key."`
}

// Help implements kong.HelpProvider.
func (*quotaResetCmd) Help() string {
	return `Example:

  headgate quota reset --admin https://headgate:9090 --admin-token-file token.txt tenant:acme

What was used is forgotten, and bans are lifted. A token with scope write is needed.`
}

// usageBody is what the admin API takes to reset and to refund.
type usageBody struct {
	Descriptor string `json:"descriptor,omitempty"`
	Domain     string `json:"domain,omitempty"`
	Hits       int64  `json:"hits,omitempty"`
}

// Run forgets what was used.
func (c *quotaResetCmd) Run(std *stdio) error {
	return c.act(std, c.Name, "reset", usageBody{Descriptor: c.Descriptor, Domain: c.Domain})
}

// act changes what was used of an account and shows what is then.
func (f *adminFlags) act(std *stdio, name, what string, body usageBody) error {
	path, err := f.usagePath(name)
	if err != nil {
		return err
	}
	raw, err := f.ask(http.MethodPost, path+"/"+what, body)
	if err != nil {
		return err
	}
	return f.showUsage(std.out, raw)
}

type quotaRefundCmd struct {
	adminFlags `embed:""`
	Hits       int64  `required:"" env:"-" placeholder:"N" help:"How many hits to give back, 1 or more."`
	Descriptor string `default:"default" env:"-" placeholder:"DESCRIPTOR" help:"The quota that they were taken from, such as 'endpoint:POST /v1/orders'. Default ${default}."`
	Domain     string `env:"-" help:"The domain of the quota, where it has quotas in several."`
	Name       string `arg:"" help:"tenant:ID, hash:HASH, entry:KEY:VALUE, or an API key with --hash-key."`
}

// Help implements kong.HelpProvider.
func (*quotaRefundCmd) Help() string {
	return `Example:

  headgate quota refund --hits 250 --admin https://headgate:9090 --admin-token-file token.txt tenant:acme

No more is given back than was used. A token with scope write is needed.`
}

// Run gives hits back.
func (c *quotaRefundCmd) Run(std *stdio) error {
	return c.act(std, c.Name, "refund", usageBody{c.Descriptor, c.Domain, c.Hits})
}

type quotaTopUpCmd struct {
	tenantFlags `embed:""`
	actorFlag   `embed:""`
	Hits        int64  `required:"" env:"-" placeholder:"N" help:"How many hits beyond the quota; each can be used once."`
	Until       string `required:"" env:"-" placeholder:"TIME" help:"When it ends: an RFC 3339 time, or how long from now ('168h')."`
	From        string `default:"now" env:"-" placeholder:"TIME" help:"When it begins: an RFC 3339 time, or 'now'. Default ${default}."`
	Descriptor  string `default:"default" env:"-" placeholder:"DESCRIPTOR" help:"The quota that it is for, such as 'endpoint:POST /v1/orders'. Default ${default}."`
	ID          string `name:"id" env:"-" placeholder:"NAME" help:"Its name, such as the number of the invoice: given again under it, a top-up is not added twice. Default: a new one."`
	JSON        bool   `name:"json" env:"-" help:"Print the account as JSON."`
	Name        string `arg:"" help:"tenant:ID, hash:HASH, entry:KEY:VALUE, or an API key with --hash-key."`
}

// Help implements kong.HelpProvider.
func (*quotaTopUpCmd) Help() string {
	return `Example:

  headgate quota top-up tenant:acme --hits 100000 --until 720h --id invoice-4711

What the quota denies is taken from the top-up as long as it lasts. Under the --id of a
top-up that there is, its hits and its times change, and what was used of it counts on.`
}

// Run adds a top-up.
func (c *quotaTopUpCmd) Run(std *stdio) error {
	now := time.Now().UTC().Truncate(time.Second)
	grant, err := c.grant(now)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	r, err := c.change(c.Name, c.actor(), nil, func(r *sqltenant.Record) error {
		r.TopUps = slices.DeleteFunc(slices.Clone(r.TopUps), func(t tenant.TopUp) bool { return t.ID == grant.ID })
		r.TopUps = append(r.TopUps, grant)
		return nil
	})
	if err != nil {
		return err
	}
	return show(std.out, &r, c.JSON)
}

// grant returns the top-up that the flags name.
func (c *quotaTopUpCmd) grant(now time.Time) (t tenant.TopUp, err error) {
	if err = quotas.CheckNewDescriptor(c.Descriptor); err == nil {
		t.Descriptor, err = tenant.ParseDescriptor(c.Descriptor)
	}
	if err != nil {
		return t, fmt.Errorf("--descriptor: %w", err)
	}
	if t.Term.From, err = parseFrom(c.From, now); err != nil {
		return t, err
	}
	if t.Term.Until, err = parseUntil(c.Until, now); err != nil {
		return t, err
	}
	t.Hits = c.Hits
	if t.ID = c.ID; t.ID == "" {
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		t.ID = "topup-" + hex.EncodeToString(random[:])
	}
	return t, nil
}
