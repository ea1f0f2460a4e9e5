package importer

import (
	"slices"
	"strings"
)

// haPass is a rule that ends a list of rules before a limit that stands in it: the requests
// that it takes are not counted there, or not denied.
type haPass struct {
	haLine
	// answers says that the proxy answers the requests itself.
	answers bool
}

// haPasses are the rules of a proxy that end a list, by the list: http-request, or the
// connection, session or content of tcp-request.
type haPasses map[string][]haPass

// begin starts a section. A proxy has the rules of the defaults that it names, or of the
// last ones before it, before its own; defaults have those of what they name alone.
func (h *haReader) begin(words []string) {
	name := strings.Join(words[1:min(len(words), 2)], "")
	inherited := h.defaults[h.lastDefaults]
	if words[0] == "defaults" {
		inherited = nil
	}
	if at := slices.Index(words, "from"); at > 0 && at+1 < len(words) {
		inherited = h.defaults[words[at+1]]
		if at == 1 {
			name = ""
		}
	}
	h.kind, h.section = words[0], name
	h.tracks, h.acls = map[string]haTrack{}, map[string]haACL{}
	h.passes = haPasses{}
	for list, passes := range inherited {
		h.passes[list] = slices.Clone(passes)
	}
	if h.kind == "defaults" {
		h.lastDefaults, h.defaults[name] = name, h.passes
	}
}

// passed notes the rules before a limit that let requests pass it by.
func (h *haReader) passed(passes []haPass) {
	for _, p := range passes {
		if p.answers {
			h.elsewhere(p.number, p.text(), "what it answers is not counted there: have it answered before Headgate is asked")
		} else {
			h.note(p.number, p.text(), "requests that it lets pass are not limited there, and are here: write unlimited for them")
		}
	}
}

// action reads an action that neither tracks nor denies, in a list of rules.
func (h *haReader) action(l haLine, list, action string, words []string) {
	switch {
	case strings.HasPrefix(action, "lua."):
		h.note(l.number, l.text(), "whether a function of Lua limits is not read")
	case action == "send-spoe-group":
		h.note(l.number, l.text(), "whether the agent that it asks limits is not read")
	case action == "set-bandwidth-limit":
		h.note(l.number, l.text(), "it limits bytes in a second, and Headgate decides on requests")
	case h.counts(words):
		h.note(l.number, l.text(), "of what is done by a counter only denials are carried over")
	case action == "set-src":
		h.elsewhere(l.number, l.text(), "it says what the address of a client is: have whoever asks Headgate send the same")
	case slices.Contains([]string{"allow", "accept"}, action):
		h.passes[list] = append(h.passes[list], haPass{l, false})
	case slices.Contains([]string{"auth", "redirect", "return", "use-service"}, action):
		h.passes[list] = append(h.passes[list], haPass{l, true})
	}
}

// haFilters are the filters that limit nothing.
var haFilters = []string{"cache", "comp-req", "comp-res", "compression", "fcgi-app", "opentelemetry", "opentracing", "trace"}

// filter notes filters that limit, or may.
func (h *haReader) filter(l haLine) {
	switch name := strings.Join(l.words[1:min(len(l.words), 2)], ""); {
	case strings.HasPrefix(name, "bwlim"):
		h.note(l.number, l.text(), "it limits bytes in a second, and Headgate decides on requests")
	case !slices.Contains(haFilters, name):
		h.note(l.number, l.text(), "whether the filter limits is not read")
	}
}
