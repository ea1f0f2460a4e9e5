package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// storeSchemes are the kinds of store that a URL can name.
var storeSchemes = []string{"memory", "redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster", "memcached"}

// StoreURL names a store. It may hold a password, so that every way to print
// it (fmt, JSON, YAML, slog) prints it without; only Reveal does not. The zero
// value names no store.
type StoreURL struct{ covered[storeText] }

type storeText struct{}

// NewStoreURL returns raw as a StoreURL. It is not checked; see Check.
func NewStoreURL(raw string) StoreURL { return StoreURL{covered[storeText]{raw}} }

// None reports whether it is the word none, by which a place that is there by default is
// left out.
func (u StoreURL) None() bool { return u.raw == "none" }

// Scheme returns what stands before "://", in lower case; "" if nothing does.
func (u StoreURL) Scheme() string {
	scheme, _, ok := strings.Cut(u.raw, "://")
	if !ok {
		return ""
	}
	return strings.ToLower(scheme)
}

// Check reports whether the URL is well formed and names a known store. Its
// errors never quote the URL.
func (u StoreURL) Check() error { return u.CheckAs("--store") }

// CheckAs is Check for what the one who wrote it knows by that name.
func (u StoreURL) CheckAs(name string) error {
	if u.raw == "" {
		return fmt.Errorf("%s: no store is named; hint: memory://, or redis://host:6379/0", name)
	}
	if !slices.Contains(storeSchemes, u.Scheme()) {
		if meant := meantStore(u.raw); meant != "" {
			return fmt.Errorf("%s: no kind of store is named; hint: %s", name, meant)
		}
		return fmt.Errorf("%s: unknown kind of store; hint: the URL begins with %s://", name, strings.Join(storeSchemes, "://, "))
	}
	if _, err := url.Parse(u.raw); err != nil {
		return fmt.Errorf("%s: not a URL; hint: write special characters of a password as %%XX, '@' as %%40, '/' as %%2F, ':' as %%3A", name)
	}
	return nil
}

// hostPort is an address without a scheme. There is no place in it for a password.
var hostPort = regexp.MustCompile(`^(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\]):(\d{1,5})$`)

// meantStore returns the URL that is meant by an address without a scheme, "" if raw is
// none.
func meantStore(raw string) string {
	parts := hostPort.FindStringSubmatch(raw)
	if parts == nil {
		return ""
	}
	switch parts[1] {
	case "11211":
		return "memcached://" + raw
	case "26379":
		return "redis+sentinel://" + raw + "/0?master=NAME"
	}
	return "redis://" + raw
}

func (storeText) shown(raw string) string {
	p, err := url.Parse(raw)
	if err != nil || p.Opaque != "" || p.Scheme == "" {
		return hidden
	}
	text := p.Scheme + "://"
	if p.User != nil {
		text += redactUser(p.User).String() + "@"
	}
	text += p.Host + p.EscapedPath()
	if p.RawQuery != "" {
		text += "?" + redactQuery(p.RawQuery)
	}
	return text
}

// redactUser hides the password. A lone name is hidden too: redis://word@host
// is a common slip for a password.
func redactUser(user *url.Userinfo) *url.Userinfo {
	if _, ok := user.Password(); ok {
		return url.UserPassword(user.Username(), hidden)
	}
	return url.User(hidden)
}

// redactQuery hides the values of parameters whose names speak of secrets, and
// all of them when it cannot be read.
func redactQuery(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return hidden
	}
	for name := range values {
		for _, word := range []string{"pass", "pwd", "secret", "token", "auth", "cred"} {
			if strings.Contains(strings.ToLower(name), word) {
				values[name] = []string{hidden}
			}
		}
	}
	return values.Encode()
}
