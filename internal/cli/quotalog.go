package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/headgate/headgate/internal/chainfile"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/signing"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant/sqltenant"
)

type quotaLogCmd struct {
	tenantFlags `embed:""`
	After       int64  `default:"0" env:"-" placeholder:"VERSION" help:"Show the changes after this one."`
	Limit       int    `default:"100" env:"-" placeholder:"N" help:"How many changes at most, up to 1000. Default ${default}."`
	JSON        bool   `name:"json" env:"-" help:"Print one JSON object to a line."`
	Verify      bool   `env:"-" xor:"do" help:"Show none, but verify that none was altered, put in or taken out."`
	Export      bool   `env:"-" xor:"do" help:"Verify all, and print them so that --verify --from reads them without the database."`
	Head        bool   `env:"-" xor:"do" help:"Verify all, and print what the log is now: a line to be kept where the database is not."`
	From        string `env:"-" placeholder:"FILE" help:"Verify what --export has written, '-' for standard input, in place of the database."`
	Heads       string `env:"-" placeholder:"FILE" help:"Verify that the log is the one of these lines, which --head has printed."`
	SignKey     string `env:"-" placeholder:"FILE" help:"Sign what --export and --head print: a private key of Ed25519 in PEM."`
	VerifyKeys  string `env:"-" placeholder:"FILE" help:"Believe only what one of these public keys in PEM has signed, of --from and --heads."`
}

// Help implements kong.HelpProvider.
func (*quotaLogCmd) Help() string {
	return `Examples:

  headgate quota log --verify
  headgate quota log --head --sign-key sign.pem >> /mnt/elsewhere/heads.jsonl
  headgate quota log --verify --heads /mnt/elsewhere/heads.jsonl --verify-keys verify.pem
  headgate quota log --export --sign-key sign.pem > changes.jsonl
  headgate quota log --verify --from changes.jsonl --verify-keys verify.pem

Each change is hashed together with the one before it. Whoever alters one, puts one in
or takes one out breaks the chain there, and --verify says where; the exit code is then 1.
Whoever may write all of the database may write a chain anew that is whole: keep heads
elsewhere, which that chain does not fit.`
}

// Run shows changes, or verifies them all.
func (c *quotaLogCmd) Run(std *stdio) error {
	if c.Limit < 1 || c.Limit > sqltenant.MaxPage {
		return &codeError{exitUsage, fmt.Errorf("--limit: %d is out of range; hint: from 1 to %d", c.Limit, sqltenant.MaxPage)}
	}
	if err := c.check(); err != nil {
		return &codeError{exitUsage, err}
	}
	if c.Verify || c.Export || c.Head {
		return c.whole(std)
	}
	return c.with(func(ctx context.Context, db *sqltenant.DB) error {
		entries, err := db.Changes(ctx, c.After, c.Limit)
		if err != nil {
			return &codeError{exitUsage, err}
		}
		for i := range entries {
			if err := showEntry(std.out, &entries[i], c.JSON); err != nil {
				return err
			}
		}
		return nil
	})
}

// check refuses flags that nothing would come of.
func (c *quotaLogCmd) check() error {
	switch {
	case c.From != "" && !c.Verify:
		return errors.New("--from: nothing comes of it without --verify")
	case c.Heads != "" && !c.Verify && !c.Export && !c.Head:
		return errors.New("--heads: nothing comes of it without --verify, --export or --head")
	case c.SignKey != "" && !c.Export && !c.Head:
		return errors.New("--sign-key: nothing comes of it without --export or --head")
	case c.VerifyKeys != "" && c.From == "" && c.Heads == "":
		return errors.New("--verify-keys: nothing of what is verified is signed; hint: --from or --heads")
	}
	return nil
}

// whole verifies all changes, and prints what is asked for.
func (c *quotaLogCmd) whole(std *stdio) error {
	signer, keys, err := c.keys(std)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	heads, err := c.heads(keys)
	if err != nil {
		return verdictOf(fmt.Errorf("--heads: %s: %w", c.Heads, err))
	}
	if c.Verify && c.Heads != "" && heads.Len() == 0 {
		return verdictOf(fmt.Errorf("--heads: %s: no head is in it, so that it says nothing of the log; hint: `headgate quota log --head` prints them", c.Heads))
	}
	export := chainfile.NewWriter(std.out)
	end, err := c.read(std, keys, func(e *sqltenant.Entry) error {
		if err := heads.Take(e); err != nil || !c.Export {
			return err
		}
		return export.Add(e)
	})
	if err == nil {
		err = heads.End(end)
	}
	if err != nil {
		return verdictOf(err)
	}
	head := chainfile.NewHead(end, time.Now(), signer)
	switch {
	case c.Export:
		return export.End(head)
	case c.Head:
		text, err := head.Line()
		if err == nil {
			_, err = std.out.Write(text)
		}
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s, each as it was made\n", rules.CountText(end.Version, "change"))
	if err == nil && c.Heads != "" {
		are := "all"
		if heads.Len() == 1 {
			are = "which is"
		}
		_, err = fmt.Fprintf(std.out, "%s, %s of this log\n", rules.CountText(heads.Len(), "head"), are)
	}
	return err
}

// keys reads what is signed and verified with; nil is what is not named.
func (c *quotaLogCmd) keys(std *stdio) (signer *signing.Signer, keys *signing.Verifier, err error) {
	if c.SignKey != "" {
		if signer, err = signing.LoadSigner(c.SignKey); err != nil {
			return nil, nil, fmt.Errorf("--sign-key: %w", err)
		}
		if signer.Shared() {
			fmt.Fprintf(std.err, "headgate: --sign-key: everybody on this machine may read or change %s\nheadgate: hint: chmod 600 %s\n", c.SignKey, c.SignKey)
		}
	}
	if c.VerifyKeys != "" {
		if keys, err = signing.LoadVerifier(c.VerifyKeys); err != nil {
			return nil, nil, fmt.Errorf("--verify-keys: %w", err)
		}
	}
	return signer, keys, nil
}

// heads reads the lines of --heads.
func (c *quotaLogCmd) heads(keys *signing.Verifier) (*chainfile.Heads, error) {
	if c.Heads == "" {
		return new(chainfile.Heads), nil
	}
	f, err := os.Open(c.Heads)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return chainfile.ReadHeads(f, keys)
}

// read hands over all changes, of the export or of the database, and returns the last.
func (c *quotaLogCmd) read(std *stdio, keys *signing.Verifier, each func(*sqltenant.Entry) error) (end sqltenant.Point, err error) {
	if c.From == "" {
		err = c.with(func(ctx context.Context, db *sqltenant.DB) error {
			end, err = db.VerifyEach(ctx, each)
			return err
		})
		return end, err
	}
	in, err := std.open(c.From)
	if err != nil {
		return end, err
	}
	defer in.Close()
	head, err := chainfile.Read(in, keys, each)
	if err != nil {
		return end, fmt.Errorf("%s: %w", c.From, err)
	}
	return sqltenant.Point{Version: head.Version, Digest: head.Hash}, nil
}

// verdictOf returns err with the code for a log that is not as it was made, or for one that
// could not be looked at.
func verdictOf(err error) error {
	var broken *sqltenant.BrokenError
	if errors.As(err, &broken) || errors.Is(err, chainfile.ErrNotWhole) {
		return &codeError{exitNo, err}
	}
	return &codeError{exitUsage, err}
}

func showEntry(w io.Writer, e *sqltenant.Entry, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			Version int64           `json:"version"`
			At      time.Time       `json:"at"`
			Actor   string          `json:"actor"`
			Kind    sqltenant.Kind  `json:"kind"`
			Name    string          `json:"name"`
			Before  json.RawMessage `json:"before"`
			After   json.RawMessage `json:"after"`
			Hash    string          `json:"hash"`
		}{e.Version, e.At, e.Actor, e.Kind, entryName(e), json.RawMessage(e.Before), json.RawMessage(e.After), e.Hash})
	}
	what := entryName(e)
	if e.Kind != sqltenant.AccountEntry {
		what = string(e.Kind) + " " + what
	}
	_, err := fmt.Fprintf(w, "%d  %s  %s  %s\n  before %s\n  after  %s\n",
		e.Version, e.At.Format(time.RFC3339), e.Actor, what, e.Before, e.After)
	return err
}

// entryName returns the name of what was changed.
func entryName(e *sqltenant.Entry) string {
	if e.Kind == sqltenant.AccountEntry || e.Kind == sqltenant.ActionEntry {
		return quotas.NameText(e.Subject)
	}
	return e.Subject.Value
}
