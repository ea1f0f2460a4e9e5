package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// importEnvoyProxy reads a rule file of envoyproxy/ratelimit with the reader of rule files,
// which takes all that the service takes, and writes down what the service does unasked.
func importEnvoyProxy(file rulefile.File, o Options) (*Result, error) {
	if o.Domain != "" {
		return nil, fmt.Errorf("a file of %s names its domain; hint: leave out the domain", EnvoyProxy)
	}
	if err := foreignKey(file.Data); err != nil {
		return nil, yamlfile.Show(file.Name, file.Data, err)
	}
	set, err := rulefile.Load([]rulefile.File{file}, rulefile.Options{Compat: true})
	if err != nil {
		return nil, err
	}
	r := &reader{data: file.Data, tree: tree{domain: set.Domains()[0], consumption: "independent"}}
	for _, w := range set.Warnings() {
		r.add(Note{Line: w.Line, Column: w.Column, Why: w.Message, Hint: w.Hint})
	}
	if o.AsIs {
		return &Result{Rules: file.Data, Set: set, Notes: r.notes}, nil
	}
	root := set.Domain(r.tree.domain).Root
	for _, child := range root.Children {
		r.tree.root.below = append(r.tree.root.below, r.envoyNode(child))
	}
	return r.result(EnvoyProxy, file.Name)
}

// envoyNode is a node as it is, with what applied by default written down.
func (r *reader) envoyNode(from *rules.Node) *node {
	n := &node{
		entry:         entry{key: from.Key, match: from.Match, value: from.Value, shared: from.Shared},
		valueToMetric: from.ValueToMetric,
	}
	if from.Rule != nil {
		n.rule = envoyRule(from.Rule)
		r.tree.rules++
	}
	for _, child := range from.Children {
		n.below = append(n.below, r.envoyNode(child))
	}
	return n
}

func envoyRule(from *rules.Rule) *rule {
	l := oneLimit{name: from.Name, unlimited: from.Unlimited, replaces: from.Replaces}
	if !from.Unlimited {
		own := from.Limits[0]
		l.requests, l.unit = own.Quota, unitName(own.Limit)
		l.algorithm, l.countDenied = own.Algorithm.String(), own.CountDenied
	}
	to := &rule{limits: []oneLimit{l}}
	for _, s := range []struct {
		key string
		on  bool
	}{
		{"shadow_mode", from.Shadow},
		{"quota_mode", from.Quota},
		{"detailed_metric", from.DetailedMetric},
	} {
		if s.on {
			to.keys = append(to.keys, setting{s.key, true})
		}
	}
	if len(from.Metadata) > 0 {
		to.keys = append(to.keys, setting{"metadata", from.Metadata})
	}
	return to
}

// unitName is the word for the period of a limit that was written with one.
func unitName(l *limit.Limit) string {
	for _, u := range wordUnits {
		if l.Period == u.length {
			return u.name
		}
	}
	return ""
}

// envoyProxyKeys are the keys that envoyproxy/ratelimit knows, at any level.
var envoyProxyKeys = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric",
	"share_threshold", "metadata", "unit", "requests_per_unit", "unlimited", "name", "replaces",
}

// foreignKey returns an error for a file with a key of Headgate: it is a rule file already,
// and an import would lose what it says.
func foreignKey(data []byte) error {
	var root yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if err := loader.Load(&root); err != nil && !errors.Is(err, io.EOF) {
		return nil // the reader of rule files says it better
	}
	return foreignBelow(&root, 0)
}

// maxYAMLDepth bounds how deep what is read may be nested.
const maxYAMLDepth = 128

func foreignBelow(n *yaml.Node, depth int) error {
	if depth > maxYAMLDepth {
		return nil // as above
	}
	if n.Kind != yaml.MappingNode {
		for _, child := range n.Content {
			if err := foreignBelow(child, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Value == "metadata" {
			continue
		}
		if !slices.Contains(envoyProxyKeys, key.Value) {
			return yamlfile.At(key, "%s does not know the key '%s'; hint: a file with keys of Headgate needs no import", EnvoyProxy, strings.ToValidUTF8(short(key.Value), "?"))
		}
		if err := foreignBelow(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	return nil
}
