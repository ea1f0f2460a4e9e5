package adminapi

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/quotas"
)

// parseName reads the name of an account; see quotas.ParseName. field is where it
// stood. It takes less than what a request may carry: no letters that are not
// printable, and no API key that is none. Errors do not hold the name.
func parseName(text, field string, hasher *identity.Hasher) (quotas.Name, *problem) {
	name, err := quotas.ParseName(text, hasher)
	if err != nil {
		return name, badField(http.StatusUnprocessableEntity, field, "%v", err)
	}
	prefix, _, found := strings.Cut(text, ":")
	named := found && (prefix == "hash" || prefix == "tenant" || prefix == "entry")
	if !named && strings.ContainsFunc(text, notOfKeys) {
		return name, badField(http.StatusUnprocessableEntity, field, "not an API key: a letter of it is none of visible ASCII, or a quote, ';', ',' or a backslash; hint: name it by hash:HASH if it is one all the same")
	}
	if !printable(text) {
		return name, badField(http.StatusUnprocessableEntity, field, "%s", quotas.Deceptive(text))
	}
	return name, nil
}

// parseNewName is parseName for a name by which something is written. It takes no name
// that could be taken for another one; what is there under such a name is still read
// and deleted by parseName.
func parseNewName(text, field string, hasher *identity.Hasher) (quotas.Name, *problem) {
	name, bad := parseName(text, field, hasher)
	if bad != nil {
		return name, bad
	}
	if err := quotas.CheckNew(name.Subject); err != nil {
		return name, badField(http.StatusUnprocessableEntity, field, "%v", err)
	}
	return name, nil
}

// notOfKeys reports whether API keys do not have r: those that travel in a header
// field, which are all, have visible ASCII, and no generator makes quotes.
func notOfKeys(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\"'`;,\\", r)
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
