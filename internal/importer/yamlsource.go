package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/yamlfile"
)

// maxDocuments bounds the documents of a file.
const maxDocuments = 1000

// documents reads all documents of a file. Aliases are refused: what stands in several
// places at once has no line of its own, and may grow without bound.
func (r *reader) documents() ([]*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(r.data), yaml.WithUniqueKeys())
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
		if document.Kind == yaml.MappingNode {
			list = append(list, document)
		}
	}
}

// syntaxError is what the YAML library says, with the line.
func syntaxError(err error) error {
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	if errors.As(err, &many) && len(many.Errors) > 0 {
		one = many.Errors[0]
	} else if !errors.As(err, &one) {
		return err
	}
	return &yamlfile.Error{Line: one.Mark.Line, Err: errors.New(yamlfile.Plain(one.Message))}
}

// tame refuses aliases, and what is nested without end.
func tame(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return yamlfile.At(n, "an alias stands here; hint: write out what it stands for")
	case depth > maxYAMLDepth:
		return yamlfile.At(n, "nested deeper than %d", maxYAMLDepth)
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
