package adminapi

import (
	"net/http"
	"strings"
)

// conditions are If-Match and If-None-Match (RFC 9110, section 13.1).
type conditions struct {
	match   []string // entity tags; nil: not asked
	there   bool     // If-Match: *
	missing bool     // If-None-Match: *
}

// maxTags bounds the entity tags of one condition.
const maxTags = 100

func parseConditions(h http.Header) (c conditions, bad *problem) {
	if values := h.Values("If-None-Match"); len(values) > 0 {
		if len(values) != 1 || strings.TrimSpace(values[0]) != "*" {
			return c, badField(http.StatusBadRequest, "If-None-Match", "not *, which is all that it may be")
		}
		c.missing = true
	}
	values := h.Values("If-Match")
	if len(values) == 0 {
		return c, nil
	}
	list := strings.Split(strings.Join(values, ","), ",")
	if len(list) == 1 && strings.TrimSpace(list[0]) == "*" {
		c.there = true
		return c, nil
	}
	for _, tag := range list[:min(len(list), maxTags)] {
		tag = strings.TrimSpace(tag)
		if text := strings.TrimPrefix(tag, "W/"); len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
			return c, badField(http.StatusBadRequest, "If-Match", "not an ETag; hint: send it as it was answered, with its quotes")
		}
		c.match = append(c.match, tag)
	}
	return c, nil
}

// check refuses what is in another version; 0 is what is not there.
func (c *conditions) check(version int64) *problem {
	switch {
	case c.missing && version != 0:
		return fail(http.StatusPreconditionFailed, "If-None-Match: it is there, in version %d", version).with("ETag", etag(version))
	case (c.there || c.match != nil) && version == 0:
		return fail(http.StatusPreconditionFailed, "If-Match: it is not there")
	case c.match == nil:
		return nil
	}
	for _, tag := range c.match {
		if tag == etag(version) {
			return nil
		}
	}
	return fail(http.StatusPreconditionFailed, "If-Match: it has changed since; it is in version %d", version).with("ETag", etag(version))
}

// any reports whether a condition was asked for.
func (c *conditions) any() bool { return c.match != nil || c.there || c.missing }
