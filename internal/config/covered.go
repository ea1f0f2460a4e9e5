package config

import (
	"fmt"
	"log/slog"
)

// hidden stands wherever a secret stood.
const hidden = "xxxxx"

// covered is a text that may hold a secret, of which S knows what may be shown. Every way to print it (fmt, JSON, YAML,
// slog) prints that; only Reveal does not. The zero value is no text, of which nothing is shown.
type covered[S interface{ shown(raw string) string }] struct{ raw string }

// UnmarshalText implements encoding.TextUnmarshaler. It takes anything, because the one who calls it may quote a refused
// text with its secret; who checks the text says what is wrong without it.
func (c *covered[S]) UnmarshalText(text []byte) error {
	c.raw = string(text)
	return nil
}

// Reveal returns the text with its secret, for the one who dials.
func (c covered[S]) Reveal() string { return c.raw }

// String returns the text without its secrets.
func (c covered[S]) String() string {
	if c.raw == "" {
		return ""
	}
	var of S
	return of.shown(c.raw)
}

// Format implements fmt.Formatter, so that %#v and %x hide secrets as well.
func (c covered[S]) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		fmt.Fprintf(f, "%q", c.String())
		return
	}
	fmt.Fprint(f, c.String())
}

// MarshalText returns String, in JSON too.
func (c covered[S]) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue implements slog.LogValuer without the secrets.
func (c covered[S]) LogValue() slog.Value { return slog.StringValue(c.String()) }
