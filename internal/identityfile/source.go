package identityfile

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/spelling"
	"github.com/headgate/headgate/internal/yamlfile"
)

// words are the sources that need nothing said about them.
var words = map[string]identity.Source{
	"api_key":        {Kind: identity.KindAPIKey},
	"user":           {Kind: identity.KindClaim, Name: "sub"},
	"remote_address": {Kind: identity.KindAddress},
	"method":         {Kind: identity.KindMethod},
	"route":          {Kind: identity.KindRoute},
	"endpoint":       {Kind: identity.KindEndpoint},
}

const wordsHint = "api_key, user, remote_address, method, route, endpoint, or a mapping with claim, header, cookie, literal or remote_address"

// preference reads an entry of a descriptor: a source, {first: [...]} or
// {all: [...]}.
func preference(n *yaml.Node) (identity.Preference, error) {
	if !isChoice(n) {
		s, err := oneSource(n)
		return identity.FirstOf(s), err
	}
	c, err := readChoice(n)
	if err != nil {
		return nil, err
	}
	if c.First == nil {
		all, err := combination(n)
		return identity.Preference{all}, err
	}
	var p identity.Preference
	for i := range c.First {
		all, err := combination(&c.First[i])
		if err != nil {
			return nil, err
		}
		p = append(p, all)
	}
	return p, nil
}

// combination reads a source or {all: [...]}.
func combination(n *yaml.Node) (identity.Combination, error) {
	if !isChoice(n) {
		s, err := oneSource(n)
		return identity.Combination{s}, err
	}
	c, err := readChoice(n)
	if err != nil {
		return nil, err
	}
	if c.First != nil {
		return nil, yamlfile.At(n, "first inside of first; hint: write its sources into the outer list")
	}
	var all identity.Combination
	for i := range c.All {
		s, err := oneSource(&c.All[i])
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// isChoice reports whether n is a mapping with first or all.
func isChoice(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i].Value; key == "first" || key == "all" {
			return true
		}
	}
	return false
}

func readChoice(n *yaml.Node) (choice, error) {
	var c choice
	if err := yamlfile.Node(n, &c); err != nil {
		return c, err
	}
	if (len(c.First) == 0) == (len(c.All) == 0) {
		return c, yamlfile.At(n, "first and all: one of them, with a list of sources; hint: {first: [api_key, remote_address]}")
	}
	return c, nil
}

// oneSource reads a source: a word, or a mapping.
func oneSource(n *yaml.Node) (identity.Source, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		s, ok := words[n.Value]
		if !ok {
			return s, yamlfile.At(n, "unknown source; hint: %sone of %s", meant(n.Value, maps.Keys(words)), wordsHint)
		}
		return s, nil
	case yaml.MappingNode:
		var s source
		if err := yamlfile.Node(n, &s); err != nil {
			return identity.Source{}, err
		}
		made, err := s.make()
		if err != nil {
			return made, yamlfile.At(n, "%w", err)
		}
		return made, nil
	}
	return identity.Source{}, yamlfile.At(n, "not a source; hint: one of %s", wordsHint)
}

// meant says which of those known a word is like, if it is like one.
func meant(word string, known iter.Seq[string]) string {
	if near := spelling.Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q? ", near)
	}
	return ""
}

func (s *source) make() (identity.Source, error) {
	made := identity.Source{Key: s.As, Secret: s.Secret, TrustedPeer: s.TrustedPeer}
	var kinds []string
	kind := func(set bool, name string, k identity.Kind, value string) {
		if set {
			kinds = append(kinds, name)
			made.Kind, made.Name = k, value
		}
	}
	kind(s.Claim != "", "claim", identity.KindClaim, s.Claim)
	kind(s.Header != "", "header", identity.KindHeader, s.Header)
	kind(s.Cookie != "", "cookie", identity.KindCookie, s.Cookie)
	kind(s.Literal != nil, "literal", identity.KindLiteral, "")
	kind(s.RemoteAddress != nil, "remote_address", identity.KindAddress, "")
	switch {
	case len(kinds) == 0:
		return made, errors.New("a source without a kind; hint: claim, header, cookie, literal or remote_address")
	case len(kinds) > 1:
		return made, fmt.Errorf("a source is one of %s; hint: {all: [...]} makes several count together", strings.Join(kinds, ", "))
	case s.Literal != nil:
		made.Value = *s.Literal
	case s.RemoteAddress != nil:
		made.Prefixes = identity.Prefixes{IPv4: s.RemoteAddress.IPv4, IPv6: s.RemoteAddress.IPv6}
	}
	return made, nil
}
