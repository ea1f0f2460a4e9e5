package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Link is where admin processes are, for those that ask them.
type Link struct {
	// AdminURLs are base URLs with commas between; "" (the default) are none.
	AdminURLs string `group:"roles" name:"admin-urls" placeholder:"URL,..." help:"Admin processes that this one asks, such as https://admin-1:8082,https://admin-2:8082: the first that answers is asked. Default: none."`
	// AdminURLsCA is a file in PEM; "" is the authorities of the system.
	AdminURLsCA string `group:"roles" name:"admin-urls-ca" placeholder:"FILE" help:"Authorities in PEM that have signed the certificates of --admin-urls. Default: those of the system."`
	// AdminURLsCert and AdminURLsKey are files in PEM; both or neither.
	AdminURLsCert string `group:"roles" name:"admin-urls-cert" placeholder:"FILE" help:"Certificate chain in PEM that this process shows the processes of --admin-urls. Read again when it changes."`
	AdminURLsKey  string `group:"roles" name:"admin-urls-key" placeholder:"FILE" help:"Key of --admin-urls-cert in PEM."`
	// AdminURLsToken is the file of a token; "" sends none.
	AdminURLsToken string `group:"roles" name:"admin-urls-token" placeholder:"FILE" help:"File of the token by which a process that decides may ask --admin-urls for snapshots: one of their --admin-tokens with the scope read. Read again for each question. Default: none, where the certificate says who asks."`
	// SnapshotKeys is a file in PEM; "" follows no snapshots.
	SnapshotKeys string `group:"roles" placeholder:"FILE" help:"Public keys in PEM (Ed25519, one after the other) of those whose snapshots are believed. With it a process without --tenants has accounts, tiers, rules and switches of the database from the processes of --admin-urls. Read again when it changes."`
}

// Follows reports whether what the database says comes from admin processes.
func (s *Settings) Follows() bool { return s.SnapshotKeys != "" }

// validateFollowing refuses snapshots from nowhere, and beside a database.
func (s *Settings) validateFollowing() error {
	switch {
	case s.TenantsDir != "" && s.SnapshotKeys == "" && s.Tenants == (DatabaseURL{}):
		return errors.New("--tenants-dir: there are no accounts that it could keep; hint: --tenants URL, or --snapshot-keys with --admin-urls")
	case s.SnapshotKeys == "" && s.AdminURLsToken != "":
		return errors.New("--admin-urls-token: this process asks for no snapshots; hint: --snapshot-keys, or leave it out")
	case s.SnapshotKeys == "":
		return nil
	case s.Tenants != (DatabaseURL{}):
		return errors.New("--snapshot-keys: what the database says comes from --tenants; hint: leave one of them out")
	case s.AdminURLs == "":
		return errors.New("--snapshot-keys: there is nobody whose snapshots they could verify; hint: --admin-urls https://admin:8082")
	}
	return nil
}

// maxAdminURLs bounds the addresses of AdminURLs: each is tried in turn.
const maxAdminURLs = 16

// Addresses returns the URLs of AdminURLs, without a path.
func (l *Link) Addresses() ([]*url.URL, error) {
	if l.AdminURLs == "" {
		return nil, nil
	}
	var list []*url.URL
	for text := range strings.SplitSeq(l.AdminURLs, ",") {
		// Without the text in errors: it may hold a password.
		u, err := url.Parse(strings.TrimSpace(text))
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
			return nil, fmt.Errorf("--admin-urls: number %d is not the address of an admin process; hint: https://HOST:PORT, with commas between", len(list)+1)
		case u.User != nil:
			return nil, fmt.Errorf("--admin-urls: number %d has a user in it; hint: tokens stand in files", len(list)+1)
		}
		u.Path = ""
		list = append(list, u)
	}
	if len(list) > maxAdminURLs {
		return nil, fmt.Errorf("--admin-urls: %d addresses; hint: at most %d", len(list), maxAdminURLs)
	}
	return list, nil
}

func (l *Link) validate() error {
	if l.AdminURLs == "" {
		return unused("admin-urls", "nobody is asked", given{"admin-urls-ca", l.AdminURLsCA != ""}, given{"admin-urls-cert", l.AdminURLsCert != ""}, given{"admin-urls-key", l.AdminURLsKey != ""})
	}
	list, err := l.Addresses()
	secure := slices.ContainsFunc(list, func(u *url.URL) bool { return u.Scheme == "https" })
	return errors.Join(
		err,
		alone("admin-urls", l.AdminURLsCert, l.AdminURLsKey),
		refuse(err == nil && !secure && (l.AdminURLsCA != "" || l.AdminURLsCert != ""), "--admin-urls-ca, --admin-urls-cert: none of --admin-urls is served by TLS; hint: https://"),
	)
}
