package candidates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/limit"
)

// tree is the YAML of a rule file that has been loaded, and so is within the bounds of those.
type tree struct {
	data []byte
	// lines are the offsets at which lines begin, and one more: the end.
	lines []int
	// nodes are all nodes as they are written, in their order; aliases stand for themselves.
	nodes []*yaml.Node
	// ends are how many of nodes there are up to the last one inside of each.
	ends map[*yaml.Node]int
	// limited are the mappings with limits, by their lines.
	limited map[int][]*yaml.Node
}

func newTree(data []byte) (*tree, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := loader.Load(&document); err != nil {
		return nil, err
	}
	t := &tree{data: data, lines: []int{0}, ends: make(map[*yaml.Node]int), limited: make(map[int][]*yaml.Node)}
	for i, c := range data {
		if c == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	t.lines = append(t.lines, len(data))
	for _, n := range document.Content {
		t.add(n)
	}
	return t, nil
}

// add adds a node and all below it.
func (t *tree) add(n *yaml.Node) {
	t.nodes = append(t.nodes, n)
	if n.Kind == yaml.MappingNode && len(limitsOf(n)) > 0 {
		t.limited[n.Line] = append(t.limited[n.Line], n)
	}
	for _, child := range n.Content {
		t.add(child)
	}
	t.ends[n] = len(t.nodes)
}

// pair is a key and its value.
type pair struct{ key, value *yaml.Node }

// limitsOf returns what says the main limits of a rule.
func limitsOf(n *yaml.Node) (list []pair) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Kind == yaml.ScalarNode && (key.Value == "rate_limit" || key.Value == "limits") {
			list = append(list, pair{key, n.Content[i+1]})
		}
	}
	return list
}

// candidate returns the text that gives the rule of a line candidates, and where it belongs.
func (t *tree) candidate(line int, limits []*limit.Limit) (offset int, text string, err error) {
	found := t.limited[line]
	if len(found) > 1 {
		found = slices.DeleteFunc(slices.Clone(found), func(n *yaml.Node) bool { return !isDescriptor(n) })
	}
	switch len(found) {
	case 0:
		return 0, "", errors.New("its limits do not stand beside its key; hint: write the candidate by hand")
	case 1:
	default:
		return 0, "", errors.New("several rules stand on its line; hint: begin each on a line of its own")
	}
	own := limitsOf(found[0])
	if found[0].Style&yaml.FlowStyle != 0 {
		if text, err = inBraces(own, limits); err != nil {
			return 0, "", err
		}
		offset, err = t.offset(own[0].key)
		return offset, text + ", ", err
	}
	if text, err = t.inLines(own, limits); err != nil {
		return 0, "", err
	}
	offset = t.lines[t.below(own[len(own)-1].value)]
	if offset == len(t.data) && offset > 0 && t.data[offset-1] != '\n' {
		text = t.newline() + text
	}
	return offset, text, nil
}

// isDescriptor reports whether a mapping has a key by which a rule is reached.
func isDescriptor(n *yaml.Node) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "key" || n.Content[i].Value == "always" {
			return true
		}
	}
	return false
}

// offset returns where a node begins.
func (t *tree) offset(n *yaml.Node) (int, error) {
	if n.Line < 1 || n.Line >= len(t.lines) {
		return 0, errors.New("its place is not known; hint: write the candidate by hand")
	}
	offset := t.lines[n.Line-1]
	column := 1
	for i := range string(t.data[offset:t.lines[n.Line]]) { // columns are characters
		if column == n.Column {
			return offset + i, nil
		}
		column++
	}
	return 0, errors.New("its place is not known; hint: write the candidate by hand")
}

// below returns the index of the line behind value: that of what is written next, and of the
// comments above it.
func (t *tree) below(value *yaml.Node) int {
	line := len(t.lines) - 1
	if end := t.ends[value]; end < len(t.nodes) {
		line = t.nodes[end].Line - 1
	}
	for line > value.Line && t.saysNothing(line-1) {
		line--
	}
	return line
}

// saysNothing reports whether the line of an index is blank, a comment, the dash of what follows
// or the end of a document.
func (t *tree) saysNothing(line int) bool {
	text := bytes.TrimSpace(t.data[t.lines[line]:t.lines[line+1]])
	return len(text) == 0 || text[0] == '#' || len(bytes.Trim(text, "- ")) == 0 || string(text) == "..."
}

// newline returns what ends the lines of the file.
func (t *tree) newline() string {
	if bytes.Contains(t.data, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// inLines returns a candidate as lines that stand where the limits do.
func (t *tree) inLines(own []pair, limits []*limit.Limit) (string, error) {
	indent := strings.Repeat(" ", own[0].key.Column-1)
	lines := []string{"candidate:"}
	err := each(own, limits, func(key string, texts []string) {
		if key == "rate_limit" {
			lines = append(lines, "  rate_limit: "+texts[0])
			return
		}
		lines = append(lines, "  limits:")
		for _, one := range texts {
			lines = append(lines, "    - "+one)
		}
	})
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(indent + line + t.newline())
	}
	return b.String(), err
}

// inBraces returns a candidate as a key and a value of one line.
func inBraces(own []pair, limits []*limit.Limit) (string, error) {
	var parts []string
	err := each(own, limits, func(key string, texts []string) {
		if key == "rate_limit" {
			parts = append(parts, "rate_limit: "+texts[0])
			return
		}
		parts = append(parts, "limits: ["+strings.Join(texts, ", ")+"]")
	})
	return "candidate: {" + strings.Join(parts, ", ") + "}", err
}

// each calls write for each key of limits with the candidates below it.
func each(own []pair, limits []*limit.Limit, write func(key string, texts []string)) error {
	for _, p := range own {
		list := []*yaml.Node{p.value}
		if p.key.Value == "limits" {
			if list = followed(p.value).Content; followed(p.value).Kind != yaml.SequenceNode {
				return errors.New("its limits are no list")
			}
		}
		if len(list) > len(limits) {
			return fmt.Errorf("it has more limits than candidates")
		}
		var texts []string
		for i, n := range list {
			text, err := limitText(followed(n), limits[i])
			if err != nil {
				return err
			}
			texts = append(texts, text)
		}
		limits = limits[len(list):]
		write(p.key.Value, texts)
	}
	if len(limits) > 0 {
		return errors.New("it has fewer limits than candidates")
	}
	return nil
}

func followed(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// limitText writes l as n does, which is the limit that it is a candidate for. A name and what
// it replaces are those of the limit itself.
func limitText(n *yaml.Node, l *limit.Limit) (string, error) {
	if n.Kind != yaml.MappingNode {
		return "", errors.New("its limit is no mapping")
	}
	var parts []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, followed(n.Content[i+1])
		switch {
		case key == "name" || key == "replaces" || key == "unlimited":
			continue
		case value.Kind != yaml.ScalarNode || n.Content[i].Kind != yaml.ScalarNode:
			return "", fmt.Errorf("'%.20s' of its limit is no word or number; hint: write the candidate by hand", key)
		case key == "requests_per_unit":
			parts = append(parts, key+": "+strconv.FormatInt(l.Quota, 10))
		case key == "burst":
			parts = append(parts, key+": "+strconv.FormatInt(l.Burst, 10))
		default:
			parts = append(parts, key+": "+scalarText(value))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// bare are scalars that may stand without quotes wherever they are.
var bare = regexp.MustCompile(`^[A-Za-z0-9_.+][A-Za-z0-9_./+-]*$`)

// scalarText writes a word or a number. JSON's strings are YAML's, too.
func scalarText(n *yaml.Node) string {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&quoted == 0 && bare.MatchString(n.Value) {
		return n.Value
	}
	text, _ := json.Marshal(n.Value) // a string never fails
	return string(text)
}
