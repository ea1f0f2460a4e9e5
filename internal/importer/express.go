package importer

import (
	"cmp"
	"fmt"
	"time"

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
	l := oneLimit{requests: 5, algorithm: "fixed_window"}
	period, keys, answer := time.Minute, []setting{{"failure_mode", "closed"}}, map[string]string{}
	good := true
	options := documents[0]
	for key, value := range pairs(options) {
		text := textOf(value)
		what := cmp.Or(key.Value+": "+text, key.Value)
		switch key.Value {
		case "windowMs":
			ms, ok := numberOf(value)
			if ok = ok && ms > 0 && ms <= maxExpressWindow; !ok {
				r.note(key.Line, what, "it is no number of milliseconds up to %d", int64(maxExpressWindow))
			}
			good, period = good && ok, time.Duration(ms)*time.Millisecond
		case "limit", "max":
			if key.Value == "max" && field(options, "limit") != nil {
				r.elsewhere(key.Line, what, "limit is the new name of max, and counts")
				continue
			}
			requests, ok := numberOf(value)
			if !ok {
				r.note(key.Line, what, "it is no whole number: a function is no JSON")
			}
			good, l.requests = good && ok, requests
		case "standardHeaders":
			headers, ok := map[string]string{"true": "draft-6", "false": "off", "draft-6": "draft-6", "draft-7": "draft-7", "draft-8": "draft-8"}[text]
			if _, boolean := bools[text]; !ok || boolean != isPlain(value) {
				r.note(key.Line, what, "these headers are not known here")
				continue
			}
			answer["headers"] = headers
		case "legacyHeaders":
			if on, ok := r.boolean(options, key.Value, false); ok {
				answer["x_ratelimit"] = map[bool]string{true: "on", false: "off"}[on]
			}
		case "passOnStoreError":
			if on, _ := r.boolean(options, key.Value, false); on {
				keys = keys[:0]
			}
		case "statusCode":
			if text != "429" {
				r.elsewhere(key.Line, what, "the front answers denials: 429, or what a gateway makes of it")
			}
		case "message":
			r.elsewhere(key.Line, what, "answer.message of rules is the sentence in the body")
		case "identifier", "requestPropertyName", "validate", "store":
			r.elsewhere(key.Line, what, "it is no part of a limit")
		case "ipv6Subnet":
			if text == "false" {
				text = "128" // each address counts by itself
			}
			if text != "64" {
				r.elsewhere(key.Line, what, "the identity file says it: {remote_address: {ipv4: 32, ipv6: %s}}", short(cmp.Or(text, "64")))
			}
		case "skipFailedRequests", "skipSuccessfulRequests":
			if on, ok := r.boolean(options, key.Value, false); on && ok {
				r.note(key.Line, what, "what is counted is not taken back by the status of the answer")
			}
		case "keyGenerator", "skip", "handler", "requestWasSuccessful":
			r.note(key.Line, what, "it is a function: have whoever asks Headgate send the entries")
		default:
			r.note(key.Line, what, "the option is not known here")
		}
	}
	if !good {
		return nil
	}
	if len(answer) > 0 {
		keys = append(keys, setting{"answer", answer})
	}
	r.tree.limit([]entry{each("remote_address")}, rule{limits: []oneLimit{l.per(period)}, keys: keys})
	return nil
}

// maxExpressWindow is the longest window of express-rate-limit, in milliseconds: what a timer
// of its runtime can wait for.
const maxExpressWindow = 1<<31 - 1
