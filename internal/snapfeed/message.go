// Package snapfeed brings what the database of tenants says to processes that have no
// credentials of it: an admin process publishes it, and deciders follow. What is
// published is signed, so that it matters little by which way it comes.
//
// Who follows says up to which point it knows, and is answered what has changed since
// then, as soon as something has. Who knows nothing, or too little, is named a file of all
// accounts by its SHA-256, and fetches that besides.
package snapfeed

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// format is that of messages which are written now.
	format = 1
	// maxMessage bounds a message, in bytes: documents and rows of rules are most of it.
	maxMessage = 512 << 20
	// maxHead bounds its first line, in bytes.
	maxHead = 16 << 10
	// maxBase bounds a file of accounts, in bytes.
	maxBase = 64 << 30
)

// Base names a file of accounts.
type Base struct {
	SHA256 string          `json:"sha256"`
	Size   int64           `json:"size"`
	Point  sqltenant.Point `json:"point"`
}

// head is the first line of a message.
type head struct {
	Format int             `json:"format"`
	From   sqltenant.Point `json:"from"`
	To     sqltenant.Point `json:"to"`
	// Base has all accounts but for those that have changed since it was made.
	Base *Base `json:"base,omitempty"`
	// Full says that the changes are those since Base, and that all else is void.
	Full bool `json:"full,omitempty"`
	// Restored says that what was asked from is no part of the history.
	Restored bool `json:"restored,omitempty"`
	// Settings is the digest of the settings at To.
	Settings string `json:"settings"`
}

// message is what an admin process answers.
type message struct {
	head
	// Accounts have changed after From; those that are not there any more have nothing but
	// their subject.
	Accounts []tenant.Account
	// Changed are the settings, nil where they are those that were asked from.
	Changed *sqltenant.Settings
}

// encode writes m.
func (m *message) encode() ([]byte, error) {
	first, err := json.Marshal(&m.head)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(append(first, '\n'))
	err = quotas.Encode(out, slices.Values(m.Accounts), quotas.Head{Version: m.To.Version, Settings: m.Changed})
	if err == nil && out.Len() > maxMessage {
		err = fmt.Errorf("a message of %d bytes; hint: at most %d", out.Len(), maxMessage)
	}
	return out.Bytes(), err
}

var errMessage = errors.New("not a whole message of an admin process")

// decode reads a message. One that is not whole is refused.
func decode(data []byte) (*message, error) {
	first, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok || len(first) > maxHead || len(data) > maxMessage {
		return nil, errMessage
	}
	m := new(message)
	if err := strictjson.Decode(first, &m.head); err != nil {
		return nil, fmt.Errorf("%w: %w", errMessage, err)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	accounts, kept, err := quotas.Decode(bufio.NewReader(bytes.NewReader(rest)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMessage, err)
	}
	if kept.Version != m.To.Version {
		return nil, fmt.Errorf("%w: version %d in one of version %d", errMessage, kept.Version, m.To.Version)
	}
	m.Accounts, m.Changed = accounts, kept.Settings
	return m, nil
}

// check refuses what no message says.
func (h *head) check() error {
	switch {
	case h.Format != format:
		return fmt.Errorf("%w: format %d is not known; hint: another version of Headgate has written it", errMessage, h.Format)
	case h.From.Version < 0 || h.To.Version < h.From.Version:
		return fmt.Errorf("%w: it is from version %d to %d", errMessage, h.From.Version, h.To.Version)
	case h.Full && (h.Base == nil || h.Base.Point != h.From):
		return fmt.Errorf("%w: it has no base", errMessage)
	case h.Base != nil && !h.Base.good():
		return fmt.Errorf("%w: its base cannot be", errMessage)
	}
	return nil
}

// good reports whether b may be a file: its name becomes one here.
func (b *Base) good() bool {
	sum, err := hex.DecodeString(b.SHA256)
	return err == nil && len(sum) == 32 && hex.EncodeToString(sum) == b.SHA256 && b.Size > 0 && b.Size <= maxBase
}
