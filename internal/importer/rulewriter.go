package importer

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/rules"
)

// write returns the rule file. Notes stand at its top, so that whoever reads the rules
// later knows what they lack.
func (t *tree) write(source Source, notes []Note) ([]byte, error) {
	file := mapping()
	put(file, "domain", t.domain)
	put(file, "match", "leaf")
	if t.consumption != "" {
		put(file, "consumption", t.consumption)
	}
	if err := putDescriptors(file, t.root.below); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.WriteString(t.heading(source, notes))
	dumper, err := yaml.NewDumper(&text, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, err
	}
	if err := dumper.Dump(file); err != nil {
		return nil, err
	}
	return text.Bytes(), dumper.Close()
}

// heading is the comment at the top.
func (t *tree) heading(source Source, notes []Note) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Imported from %s.\n", source)
	if len(t.shapes) > 0 {
		b.WriteString("#\n# Requests carry these descriptors, as far as they have the entries:\n")
		for _, shape := range t.shapes {
			fmt.Fprintf(&b, "#   %s\n", shape)
		}
	}
	for i, n := range notes {
		if i == 0 {
			b.WriteString("#\n# Not carried over, or set elsewhere:\n")
		}
		separator := ", "
		if n.What == "" {
			separator = ": "
		}
		fmt.Fprintf(&b, "#   line %d%s%s\n", n.Line, separator, commentText(n.Text()))
		if n.Hint != "" {
			fmt.Fprintf(&b, "#     hint: %s\n", commentText(n.Hint))
		}
	}
	return b.String()
}

// commentText is text as it can stand in a comment: on one line, without what a terminal
// or a reader of YAML might obey.
func commentText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r >= 0xfffe && r <= 0xffff {
			return '?'
		}
		return r
	}, text)
}

func (n *node) yaml() (*yaml.Node, error) {
	m := mapping()
	put(m, "key", n.key)
	switch n.match {
	case rules.MatchValue:
		put(m, "value", n.value)
	case rules.MatchPrefix:
		put(m, "value_prefix", n.value)
	case rules.MatchRegex:
		put(m, "value_regex", n.value)
	case rules.MatchCIDR:
		put(m, "value_cidr", n.value)
	}
	if n.shared {
		put(m, "share_threshold", true)
	}
	if n.valueToMetric {
		put(m, "value_to_metric", true)
	}
	if n.rule != nil {
		if err := n.rule.yaml(m); err != nil {
			return nil, err
		}
	}
	if len(n.below) == 0 {
		return m, nil
	}
	return m, putDescriptors(m, n.below)
}

// putDescriptors adds the list of descriptors of nodes.
func putDescriptors(m *yaml.Node, nodes []*node) error {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, n := range nodes {
		child, err := n.yaml()
		if err != nil {
			return err
		}
		list.Content = append(list.Content, child)
	}
	putNode(m, "descriptors", list)
	return nil
}

func (r *rule) yaml(m *yaml.Node) error {
	switch len(r.limits) {
	case 0:
	case 1:
		putNode(m, "rate_limit", r.limits[0].yaml())
	default:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range r.limits {
			list.Content = append(list.Content, r.limits[i].yaml())
		}
		putNode(m, "limits", list)
	}
	if r.concurrency > 0 {
		put(m, "concurrency", r.concurrency)
	}
	for _, s := range r.keys {
		value := new(yaml.Node)
		if err := value.Encode(s.value); err != nil {
			return fmt.Errorf("%s: %w", s.key, err)
		}
		putNode(m, s.key, value)
	}
	return nil
}

func (l *oneLimit) yaml() *yaml.Node {
	m := mapping()
	m.Style = yaml.FlowStyle
	put(m, "name", l.name)
	if l.unlimited {
		put(m, "unlimited", true)
	} else {
		put(m, "requests_per_unit", l.requests)
		put(m, "unit", l.unit)
		put(m, "window", l.window)
		put(m, "time_zone", l.zone)
		put(m, "algorithm", l.algorithm)
	}
	if l.burst > 0 {
		put(m, "burst", l.burst)
	}
	put(m, "max_delay", l.maxDelay)
	if l.maxQueue > 0 {
		put(m, "max_queue", l.maxQueue)
	}
	if l.countDenied {
		put(m, "count_denied", true)
	}
	if len(l.replaces) > 0 {
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, name := range l.replaces {
			replaced := mapping()
			put(replaced, "name", name)
			list.Content = append(list.Content, replaced)
		}
		putNode(m, "replaces", list)
	}
	return m
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// put adds a key with a text, a number or a boolean; a text that is empty is left out,
// but for the value of a descriptor.
func put(m *yaml.Node, key string, value any) {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := value.(type) {
	case string:
		if v == "" && !strings.HasPrefix(key, "value") {
			return
		}
		n.SetString(v)
		if n.Style == 0 && !plain(v) {
			n.Style = yaml.DoubleQuotedStyle
		}
	default:
		n.Value = fmt.Sprint(v)
	}
	putNode(m, key, n)
}

// plain reports whether a text is the same without quotes to every reader of YAML.
func plain(text string) bool {
	if len(text) < 3 {
		return false
	}
	switch strings.ToLower(text) {
	case "yes", "true", "false", "off", "null", "nan", "inf":
		return false
	}
	for i, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9' || strings.ContainsRune("_-/.", r))) {
			return false
		}
	}
	return true
}

func putNode(m *yaml.Node, key string, value *yaml.Node) {
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}
