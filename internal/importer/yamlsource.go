package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/yamlfile"
)

// maxDocuments bounds the documents of a file.
const maxDocuments = 1000

// documents reads all documents of a file. Aliases are refused: what stands in several
// places at once has no line of its own, and may grow without bound. Keys that stand twice
// are refused too, because programs do not agree on which of the two counts.
func (r *reader) documents() ([]*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(r.data))
	if err != nil {
		return nil, err
	}
	var list []*yaml.Node
	for {
		document := new(yaml.Node)
		switch err := loader.Load(document); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, syntaxError(err)
		case len(list) == maxDocuments:
			return nil, fmt.Errorf("more than %d documents; hint: split it", maxDocuments)
		}
		if err := tame(document, 0); err != nil {
			return nil, err
		}
		if document.Kind == yaml.DocumentNode && len(document.Content) > 0 {
			document = document.Content[0]
		}
		switch {
		case document.Kind == yaml.MappingNode:
			list = append(list, document)
		case document.Kind != yaml.DocumentNode && isSet(document):
			r.note(document.Line, "a document", "it is no mapping, and is not read")
		}
	}
}

// syntaxError is what the YAML library says, with the place.
func syntaxError(err error) error {
	if faults := yamlfile.Faults(err, nil, nil); len(faults) > 0 {
		return faults[0]
	}
	return err
}

// tame refuses aliases, keys that stand twice, and what is nested without end.
func tame(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return yamlfile.At(n, "an alias stands here; hint: write out what it stands for")
	case depth > maxYAMLDepth:
		return yamlfile.At(n, "nested deeper than %d", maxYAMLDepth)
	}
	lines := map[string]int{}
	for key := range pairs(n) {
		switch line, twice := lines[key.Value]; {
		case key.ShortTag() == "!!merge":
			return yamlfile.At(key, "a merge key stands here; hint: write out what it adds")
		case twice:
			return yamlfile.At(key, "the key '%s' stands on line %d already; hint: delete one of the two", short(key.Value), line)
		}
		lines[key.Value] = key.Line
	}
	for _, child := range n.Content {
		if err := tame(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// pairs yields the keys of a mapping with their values; nothing for other nodes.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// field returns what stands under keys of mappings, one within the other; nil for nothing.
func field(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		var found *yaml.Node
		for k, v := range pairs(n) {
			if k.Value == key {
				found = v
			}
		}
		n = found
	}
	return n
}

// textOf is the text of a scalar, "" for anything else and for null.
func textOf(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}

// items are the elements of a list; none for other nodes.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// isSet reports whether a key has a value that is not null.
func isSet(n *yaml.Node) bool {
	return n != nil && !(n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null")
}

// list returns the elements of the list that stands under a key. Anything else that stands
// there is noted, and ok is false then.
func (r *reader) list(n *yaml.Node, key string) (elements []*yaml.Node, ok bool) {
	value := field(n, key)
	if isSet(value) && value.Kind != yaml.SequenceNode {
		r.note(value.Line, key, "it is no list, and is not read")
		return nil, false
	}
	return items(value), true
}

// text returns the text that stands under a key, "" where nothing does. A list or a mapping
// that stands there is noted, and ok is false then.
func (r *reader) text(n *yaml.Node, key string) (text string, ok bool) {
	value := field(n, key)
	if isSet(value) && value.Kind != yaml.ScalarNode {
		r.note(value.Line, key, "it is no text, and is not read")
		return "", false
	}
	return textOf(value), true
}

// bools are the booleans of YAML 1.1, which Kong and the tools of Kubernetes read.
var bools = map[string]bool{
	"true": true, "True": true, "TRUE": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"false": false, "False": false, "FALSE": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

// isPlain reports whether a node is a scalar without quotes: one with quotes is a text,
// whatever it looks like.
func isPlain(n *yaml.Node) bool {
	const asText = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return n != nil && n.Kind == yaml.ScalarNode && n.Style&asText == 0
}

// boolean returns the boolean that stands under a key, and otherwise where nothing does.
// What is no boolean is noted, and ok is false then.
func (r *reader) boolean(n *yaml.Node, key string, otherwise bool) (value, ok bool) {
	at := field(n, key)
	if !isSet(at) {
		return otherwise, true
	}
	value, ok = bools[textOf(at)]
	if ok = ok && isPlain(at); !ok {
		r.note(at.Line, strings.TrimSpace(key+": "+textOf(at)), "it is neither true nor false, and is not read")
		return otherwise, false
	}
	return value, true
}

// numberOf reads a whole number. A zero before others is refused: some programs read it as
// the mark of another base, and some do not.
func numberOf(n *yaml.Node) (int64, bool) {
	if !isPlain(n) || len(n.Value) > 1 && n.Value[0] == '0' {
		return 0, false
	}
	return count(n.Value)
}

// unknown notes the keys of a mapping that are not among those known.
func (r *reader) unknown(n *yaml.Node, known ...string) {
	for key, value := range pairs(n) {
		if isSet(value) && !slices.Contains(known, key.Value) {
			r.note(key.Line, key.Value, "the key is not known here")
		}
	}
}
