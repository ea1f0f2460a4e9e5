package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Bounds of the settings. They stand in the schema too, which Kong checks by.
const (
	maxTimeoutMS   = 10_000
	maxConnections = 1024
	maxNames       = 64 // of header fields in one list
)

// What becomes of requests while Headgate does not answer.
const (
	failOpen   = "open"
	failClosed = "closed"
)

// What of a consumer Headgate is told.
const (
	byUsername = "username"
	byCustomID = "custom_id"
	byID       = "id"
)

// Config is the configuration of one use of the plugin. Kong sends it as JSON, with null for
// what was not set: newConfig has the defaults.
type Config struct {
	// URL is where Headgate answers: http or https, and the path /auth/kong, or
	// /auth/kong@DOMAIN.
	URL string `json:"url"`
	// TimeoutMS is how long a request waits for an answer, in milliseconds.
	TimeoutMS int `json:"timeout_ms"`
	// FailureMode is "open" or "closed".
	FailureMode string `json:"failure_mode"`
	// Connections bounds the connections to Headgate. They are kept open.
	Connections int `json:"connections"`
	// RequestHeaders are the fields of the client that Headgate sees; none means all.
	RequestHeaders names `json:"request_headers"`
	// ClientHeaders are the fields of an allowed answer that the client hears.
	ClientHeaders names `json:"client_headers"`
	// UpstreamHeaders are those that the service behind hears. What the client sends
	// under these names is dropped.
	UpstreamHeaders names `json:"upstream_headers"`
	// ConsumerHeader is the field by which Headgate is told Kong's consumer, "" for none,
	// and ConsumerBy says what of it: "username", "custom_id" or "id".
	ConsumerHeader string `json:"consumer_header"`
	ConsumerBy     string `json:"consumer_by"`
	// CredentialHeader is the field for the ID of the credential, "" for none.
	CredentialHeader string `json:"credential_header"`
	// CheckIDHeader is the field of --check-id-header, "" for none.
	CheckIDHeader string `json:"check_id_header"`
	// Token is shown to Headgate in X-Headgate-Token; "" shows none.
	Token string `json:"token"`

	once  sync.Once
	asker *asker
	fault error // of the configuration
}

// newConfig returns the defaults.
func newConfig() *Config {
	return &Config{
		URL:            "http://127.0.0.1:9091/auth/kong",
		TimeoutMS:      100,
		FailureMode:    failOpen,
		Connections:    64,
		RequestHeaders: names{},
		ClientHeaders: names{
			"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Warning",
		},
		UpstreamHeaders:  names{"X-RateLimit-Challenge"},
		ConsumerHeader:   "X-Kong-Consumer",
		ConsumerBy:       byUsername,
		CredentialHeader: "X-Kong-Credential",
	}
}

// names are names of header fields.
type names []string

// UnmarshalJSON implements json.Unmarshaler. Kong is written in Lua, which knows no empty
// list from an empty object, and writes null for what was not set.
func (n *names) UnmarshalJSON(data []byte) error {
	switch data = bytes.TrimSpace(data); string(data) {
	case "null":
		return nil
	case "{}":
		*n = names{}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(n))
}

// has reports whether a field is among n, whatever its case.
func (n names) has(field string) bool {
	return slices.ContainsFunc(n, func(name string) bool { return strings.EqualFold(name, field) })
}

// check returns an error for settings that cannot work. It holds no secret.
func (c *Config) check() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url: want http://HOST:PORT/auth/kong, or https")
	case u.User != nil:
		return errors.New("url: holds a user; hint: set token")
	case c.TimeoutMS < 1 || c.TimeoutMS > maxTimeoutMS:
		return fmt.Errorf("timeout_ms: %d is not between 1 and %d", c.TimeoutMS, maxTimeoutMS)
	case c.Connections < 1 || c.Connections > maxConnections:
		return fmt.Errorf("connections: %d is not between 1 and %d", c.Connections, maxConnections)
	case c.FailureMode != failOpen && c.FailureMode != failClosed:
		return fmt.Errorf("failure_mode: %q is neither %s nor %s", c.FailureMode, failOpen, failClosed)
	case !slices.Contains([]string{byUsername, byCustomID, byID}, c.ConsumerBy):
		return fmt.Errorf("consumer_by: %q is none of %s, %s and %s", c.ConsumerBy, byUsername, byCustomID, byID)
	case !isValue(c.Token):
		return errors.New("token: cannot stand in a header field")
	}
	return c.checkNames()
}

func (c *Config) checkNames() error {
	for _, list := range []struct {
		setting string
		names   names
	}{{"request_headers", c.RequestHeaders}, {"client_headers", c.ClientHeaders}, {"upstream_headers", c.UpstreamHeaders}} {
		if len(list.names) > maxNames {
			return fmt.Errorf("%s: more than %d names", list.setting, maxNames)
		}
		for _, name := range list.names {
			if !isName(name) {
				return fmt.Errorf("%s: %q is no name of a header field", list.setting, name)
			}
		}
	}
	for setting, name := range map[string]string{
		"consumer_header": c.ConsumerHeader, "credential_header": c.CredentialHeader, "check_id_header": c.CheckIDHeader,
	} {
		switch {
		case name == "":
		case !isName(name):
			return fmt.Errorf("%s: %q is no name of a header field", setting, name)
		case keptBack.has(name):
			return fmt.Errorf("%s: %s has another meaning; hint: a name of your own, such as X-Kong-Consumer", setting, http.CanonicalHeaderKey(name))
		}
	}
	return nil
}

// isName reports whether s can be the name of a header field.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// isValue reports whether s can be the value of a header field.
func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
