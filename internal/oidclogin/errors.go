package oidclogin

import (
	"strings"

	"github.com/headgate/headgate/identity"
)

// Because is why there is no login. The zero value is none.
type Because uint8

const (
	// Away is an issuer that does not answer, or not as one.
	Away Because = 1 + iota
	// Setup is an issuer that does not take the client: its name, its secret or what it
	// asks for.
	Setup
	// Declined is an issuer, or somebody who was asked there, that has said no.
	Declined
	// Stray is an answer to no login that was begun here.
	Stray
	// Untrusted is an answer, or a token in it, that is not to be believed.
	Untrusted
)

// Error is why there is no login.
type Error struct {
	Because Because
	// Text is for who wants to log in. It holds no secret.
	Text string
	// Reason is what is wrong with a token, 0 where it is none of a token.
	Reason identity.Reason
	// Cause is what else an operator needs to know, without a secret; nil where there is
	// nothing.
	Cause error
}

// Error returns text and cause in one line.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Text
	}
	return e.Text + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// maxWords bounds what is shown of the words of an issuer, in bytes.
const maxWords = 300

// words returns text of an issuer as it can be shown: visible ASCII and blanks, as RFC 6749,
// section 5.2, has it.
func words(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text[:min(len(text), maxWords)])
	return strings.Join(strings.Fields(text), " ")
}
