package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/internal/signing"
	"github.com/headgate/headgate/internal/snapfeed"
	"github.com/headgate/headgate/internal/tenantsource"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// maxToken bounds the file of a token, in bytes.
const maxToken = 64 << 10

var errNoDatabaseYet = errors.New("the database of tenants has not been opened yet")

// feed has what the database says come from admin processes, or go to those who have none,
// where settings say so. Both keep it in a directory, which is one of this process alone
// where settings name none.
func (p *process) feed(o *tenantsource.Options) error {
	s := p.settings
	if p.options.signKey == "" && !s.Follows() {
		return nil
	}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "headgate-tenants-")
		if err != nil {
			return fmt.Errorf("make a directory for accounts: %w; hint: --tenants-dir", err)
		}
		o.Dir = dir
		p.atEnd = append(p.atEnd, func() { _ = os.RemoveAll(dir) })
		if s.Follows() {
			p.logger.Warn("a start without the admin processes knows of no accounts, rules and switches of the database; hint: --tenants-dir keeps what was read last")
		}
	}
	if s.Follows() {
		return p.follow(o)
	}
	signer, err := signing.LoadSigner(p.options.signKey)
	if err != nil {
		return fmt.Errorf("--snapshot-sign-key: %w", err)
	}
	if signer.Shared() {
		p.logger.Warn("everybody on this machine may read or change the key that signs snapshots; hint: chmod 600, or 640 for a group", "file", p.options.signKey)
	}
	publisher := snapfeed.NewPublisher(signer, func(ctx context.Context, at sqltenant.Point) (bool, error) {
		db := p.health.tenants.Database()
		if db == nil {
			return false, errNoDatabaseYet
		}
		return db.Holds(ctx, at)
	})
	o.Publish = publisher
	p.administered = append(p.administered, func(o *adminapi.Options) { o.Snapshots = publisher })
	return nil
}

// follow has accounts come from admin processes.
func (p *process) follow(o *tenantsource.Options) error {
	s := p.settings
	link, err := p.adminLink(&s.Link)
	if err != nil {
		return err
	}
	verifier := new(atomic.Pointer[signing.Verifier])
	load := func() (bool, error) {
		v, err := signing.LoadVerifier(s.SnapshotKeys)
		if err != nil {
			return false, fmt.Errorf("--snapshot-keys: %w", err)
		}
		before := verifier.Swap(v)
		return before != nil && !before.Equal(v), nil
	}
	if _, err := load(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return fmt.Errorf("--tenants-dir: %w", err)
	}
	p.keepFresh("snapshot_keys", "the file of --snapshot-keys", tellingOnce(load))
	p.atEnd = append(p.atEnd, link.Close)
	o.Follow = func(f snapfeed.FollowerOptions) *snapfeed.Follower {
		f.Client, f.Next, f.Path, f.Verifier = link, link.Next, adminapi.Prefix+"snapshot", verifier.Load
		f.Token = func() (string, error) { return readToken(s.AdminURLsToken) }
		return snapfeed.NewFollower(f)
	}
	return nil
}

// readToken returns what a file holds, "" without one.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := regular.Read(path, maxToken)
	token := strings.TrimSpace(string(text))
	if err == nil && (token == "" || !ascii.IsVisible(token)) {
		err = fmt.Errorf("%s: no token in it; hint: one line, as `headgate admin token` prints it", path)
	}
	if err != nil {
		return "", fmt.Errorf("--admin-urls-token: %w", err)
	}
	return token, nil
}
