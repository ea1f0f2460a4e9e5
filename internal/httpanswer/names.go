package httpanswer

import "net/http"

// name is one of the header fields of an answer.
type name uint8

const (
	policyName name = iota
	rateLimitName
	limitName
	remainingName
	resetName
	xLimit
	xRemaining
	xResetAt
	retryAfter
	cacheControl
	warning
	contentType
	// decisionField is called as the options of an Encoder say.
	decisionField
)

// spellings of a field: that of the drafts and of custom, and that under which net/http finds
// it in a Header.
type spellings struct{ own, canonical string }

func spellingsOf(name string) spellings { return spellings{name, http.CanonicalHeaderKey(name)} }

var names = [...]spellings{
	policyName:    spellingsOf(policyField),
	rateLimitName: spellingsOf(rateLimitField),
	limitName:     spellingsOf(limitField),
	remainingName: spellingsOf(remainingField),
	resetName:     spellingsOf(resetField),
	xLimit:        spellingsOf(xLimitField),
	xRemaining:    spellingsOf(xRemainingField),
	xResetAt:      spellingsOf(xResetField),
	retryAfter:    spellingsOf(retryAfterField),
	cacheControl:  spellingsOf(cacheField),
	warning:       spellingsOf(warningField),
	contentType:   spellingsOf("Content-Type"),
}
