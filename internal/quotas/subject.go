package quotas

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// The entry keys of subjects, and what names one in text.
const (
	apiKeyEntry  = "api_key"
	tenantEntry  = "tenant"
	hashPrefix   = "hash:"
	tenantPrefix = "tenant:"
	entryPrefix  = "entry:"
)

// Name is what a text says about a subject.
type Name struct {
	Subject tenant.Subject
	// Last4 are the last four letters of an API key that was given in full, else "".
	Last4 string
}

// ParseName reads what people name a subject by:
//
//	sk_live_abcd       an API key: its hash is the subject, by hasher
//	hash:jEZV...       the hash of an API key, as logs and answers show it
//	tenant:acme        a tenant by its id
//	entry:org:acme     a tenant that requests carry in another entry, here org:acme
//
// hasher may be nil where no key is named in full. Errors do not hold the text,
// which may be a key.
func ParseName(text string, hasher *identity.Hasher) (Name, error) {
	if hash, ok := strings.CutPrefix(text, hashPrefix); ok {
		if !isHash(hash) {
			return Name{}, fmt.Errorf("not the hash of an API key; hint: %s and %d letters, digits, '-' or '_'", hashPrefix, identity.HashLength)
		}
		return Name{Subject: tenant.Subject{Key: apiKeyEntry, Value: hash}}, nil
	}
	if id, ok := strings.CutPrefix(text, tenantPrefix); ok {
		if id == "" || len(id) > sqltenant.MaxSubject {
			return Name{}, fmt.Errorf("the id of a tenant has 1 to %d bytes", sqltenant.MaxSubject)
		}
		return Name{Subject: tenant.Subject{Key: tenantEntry, Value: id}}, nil
	}
	if entry, ok := strings.CutPrefix(text, entryPrefix); ok {
		return entryName(entry)
	}
	switch {
	case text == "":
		return Name{}, errors.New("no API key; hint: a key, hash:HASH, tenant:ID or entry:KEY:VALUE")
	case len(text) > identity.MaxSecret:
		return Name{}, fmt.Errorf("an API key of %d bytes; hint: at most %d", len(text), identity.MaxSecret)
	case hasher == nil:
		return Name{}, errors.New("an API key, and no key to hash it by; hint: --hash-key FILE (of a server: --admin-hash-key, or hash_key_file in --identity), or name it by hash:HASH; a tenant is named by tenant:ID")
	}
	return Name{Subject: tenant.Subject{Key: apiKeyEntry, Value: hasher.APIKey(text)}, Last4: Last4(text)}, nil
}

// entryName reads KEY:VALUE. The first ":" ends the key.
func entryName(text string) (Name, error) {
	key, value, found := strings.Cut(text, ":")
	switch {
	case !found || key == "" || value == "" || len(key) > sqltenant.MaxSubject || len(value) > sqltenant.MaxSubject:
		return Name{}, fmt.Errorf("not the entry of a tenant; hint: entry:KEY:VALUE, of at most %d bytes each", sqltenant.MaxSubject)
	case key == apiKeyEntry:
		return Name{}, errors.New("an API key is not kept as it is; hint: name it by hash:HASH, or the key itself with --hash-key FILE (of a server: --admin-hash-key, or hash_key_file in --identity)")
	}
	return Name{Subject: tenant.Subject{Key: key, Value: value}}, nil
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func isHash(text string) bool {
	return len(text) == identity.HashLength && strings.Trim(text, base64url) == ""
}

// minMasked is the length from which the last four letters of a key are kept: of a
// shorter one they would give too much away.
const minMasked = 12

// Last4 returns the last four letters of an API key, by which people know it; "" of
// one that is too short for that.
func Last4(key string) string {
	runes := []rune(key)
	if len(runes) < minMasked || !utf8.ValidString(key) {
		return ""
	}
	return string(runes[len(runes)-4:])
}

// NameText is the inverse of ParseName as far as that can be: an API key is shown
// by its hash.
func NameText(s tenant.Subject) string {
	switch s.Key {
	case apiKeyEntry:
		return hashPrefix + s.Value
	case tenantEntry:
		return tenantPrefix + s.Value
	}
	return entryPrefix + s.Key + ":" + s.Value
}

// Masked is what a person knows an API key by: "****wxyz"; for a tenant its name.
func Masked(r *sqltenant.Record) string {
	if r.Subject.Key != apiKeyEntry {
		return NameText(r.Subject)
	}
	return "****" + r.Last4
}
