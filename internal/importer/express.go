package importer

import (
	"cmp"
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/internal/yamlfile"
)

// readExpress reads the options object of express-rate-limit as JSON. JSON is YAML too, and
// the reader of YAML knows the lines.
func readExpress(r *reader) error {
	documents, err := r.documents()
	if err != nil {
		return err
	}
	if err := strictjson.Valid(r.data); err != nil {
		line, column := err.Place(r.data)
		return &yamlfile.Error{Line: line, Column: column, Err: fmt.Errorf("no JSON: %w; hint: write the options with JSON.stringify", err)}
	}
	if len(documents) != 1 {
		return fmt.Errorf("no object of options; hint: write {\"windowMs\": 60000, \"limit\": 100}")
	}
	e := expressOptions{
		reader: r, all: documents[0], good: true, keys: []setting{{"failure_mode", "closed"}}, answer: map[string]string{},
		period: time.Minute, limit: oneLimit{requests: 5, algorithm: "fixed_window"},
	}
	for key, value := range pairs(e.all) {
		e.option(key, value)
	}
	if !e.good {
		return nil
	}
	if len(e.answer) > 0 {
		e.keys = append(e.keys, setting{"answer", e.answer})
	}
	r.tree.limit([]entry{each("remote_address")}, rule{limits: []oneLimit{e.limit.per(e.period)}, keys: e.keys})
	return nil
}

// expressOptions is what was read of an object of options.
type expressOptions struct {
	*reader
	all    *yaml.Node
	limit  oneLimit
	period time.Duration
	keys   []setting
	answer map[string]string
	// good says that nothing of the limit was unreadable.
	good bool
}

// option reads one option.
func (e *expressOptions) option(key, value *yaml.Node) {
	text := textOf(value)
	what := cmp.Or(key.Value+": "+text, key.Value)
	switch key.Value {
	case "windowMs":
		ms, ok := numberOf(value)
		if ok = ok && ms > 0 && ms <= maxExpressWindow; !ok {
			e.note(key.Line, what, "it is no number of milliseconds up to %d", int64(maxExpressWindow))
		}
		e.good, e.period = e.good && ok, time.Duration(ms)*time.Millisecond
	case "limit", "max":
		if key.Value == "max" && field(e.all, "limit") != nil {
			e.elsewhere(key.Line, what, "limit is the new name of max, and counts")
			return
		}
		requests, ok := numberOf(value)
		if !ok {
			e.note(key.Line, what, "it is no whole number: a function is no JSON")
		}
		e.good, e.limit.requests = e.good && ok, requests
	case "standardHeaders":
		headers, ok := map[string]string{"true": "draft-6", "false": "off", "draft-6": "draft-6", "draft-7": "draft-7", "draft-8": "draft-8"}[text]
		if _, boolean := bools[text]; !ok || boolean != isPlain(value) {
			e.note(key.Line, what, "these headers are not known here")
			return
		}
		e.answer["headers"] = headers
	case "legacyHeaders":
		if on, ok := e.boolean(e.all, key.Value, false); ok {
			e.answer["x_ratelimit"] = map[bool]string{true: "on", false: "off"}[on]
		}
	case "passOnStoreError":
		if on, _ := e.boolean(e.all, key.Value, false); on {
			e.keys = e.keys[:0]
		}
	default:
		e.left(key, text, what)
	}
}

// left notes an option that is not carried over, where the rules differ by that.
func (e *expressOptions) left(key *yaml.Node, text, what string) {
	switch key.Value {
	case "statusCode":
		if text != "429" {
			e.elsewhere(key.Line, what, "the front answers denials: 429, or what a gateway makes of it")
		}
	case "message":
		e.elsewhere(key.Line, what, "answer.message of rules is the sentence in the body")
	case "identifier", "requestPropertyName", "validate", "store":
		e.elsewhere(key.Line, what, "it is no part of a limit")
	case "ipv6Subnet":
		if text == "false" {
			text = "128" // each address counts by itself
		}
		if text != "64" {
			e.elsewhere(key.Line, what, "the identity file says it: {remote_address: {ipv4: 32, ipv6: %s}}", short(cmp.Or(text, "64")))
		}
	case "skipFailedRequests", "skipSuccessfulRequests":
		if on, ok := e.boolean(e.all, key.Value, false); on && ok {
			e.note(key.Line, what, "what is counted is not taken back by the status of the answer")
		}
	case "keyGenerator", "skip", "handler", "requestWasSuccessful":
		e.note(key.Line, what, "it is a function: have whoever asks Headgate send the entries")
	default:
		e.note(key.Line, what, "the option is not known here")
	}
}

// maxExpressWindow is the longest window of express-rate-limit, in milliseconds: what a timer
// of its runtime can wait for.
const maxExpressWindow = 1<<31 - 1
