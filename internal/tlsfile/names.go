package tlsfile

import (
	"crypto/x509"
	"errors"
	"strings"
	"unicode"
)

// Kinds of names, as they are written.
const (
	dns = "dns:"
	uri = "uri:"
	cn  = "cn:"
)

// MaxName bounds a Name, in bytes.
const MaxName = 512

// Name is a name of certificates, or a pattern of them. The zero value is that of none.
type Name struct {
	kind, text string
	wild       bool
}

// ParseName reads a name as people write it:
//
//	dns:gateway.internal    a DNS name of the certificate (subject alternative name)
//	dns:*.edge.internal     one label more than this
//	uri:spiffe://prod/edge  a URI of it, such as a SPIFFE ID; uri: may be left out before spiffe://
//	uri:spiffe://prod/ns/*  whatever begins like this, up to the "*"
//	cn:gateway              the common name of its subject
func ParseName(text string) (Name, error) {
	n := Name{}
	switch rest := ""; {
	case strings.HasPrefix(text, "spiffe://"):
		n = Name{kind: uri, text: text}
	default:
		for _, kind := range []string{dns, uri, cn} {
			if s, ok := strings.CutPrefix(text, kind); ok {
				n.kind, rest = kind, s
			}
		}
		n.text = rest
	}
	switch {
	case n.kind == dns:
		n.text = strings.ToLower(n.text)
		n.text, n.wild = strings.CutPrefix(n.text, "*")
		n.wild = n.wild && strings.HasPrefix(n.text, ".")
	case n.kind == uri && strings.HasSuffix(n.text, "/*"):
		n.text, n.wild = n.text[:len(n.text)-1], true
	}
	switch {
	case n.kind == "", n.text == "", len(text) > MaxName,
		n.kind != cn && strings.Contains(n.text, "*"),
		n.kind == dns && strings.Trim(n.text, ".") == "",
		n.kind == dns && !n.wild && strings.HasPrefix(n.text, "."),
		n.kind == uri && !strings.Contains(n.text, ":"),
		strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ',' || n.kind != cn && r == ' ' }):
		return Name{}, errors.New("no name of a certificate; hint: dns:gateway.internal, dns:*.edge.internal, uri:spiffe://prod/ns/edge/sa/envoy, uri:spiffe://prod/ns/edge/* or cn:gateway")
	}
	return n, nil
}

// String returns the name as ParseName reads it.
func (n Name) String() string {
	switch {
	case n.wild && n.kind == dns:
		return n.kind + "*" + n.text
	case n.wild:
		return n.kind + n.text + "*"
	}
	return n.kind + n.text
}

// Match reports whether a certificate has the name.
func (n Name) Match(c *x509.Certificate) bool {
	switch n.kind {
	case dns:
		for _, name := range c.DNSNames {
			if n.fits(strings.ToLower(name)) {
				return true
			}
		}
	case uri:
		for _, u := range c.URIs {
			if n.fits(u.String()) {
				return true
			}
		}
	case cn:
		return n.text != "" && c.Subject.CommonName == n.text
	}
	return false
}

func (n Name) fits(name string) bool {
	switch {
	case !n.wild:
		return name == n.text
	case n.kind == dns:
		label, ok := strings.CutSuffix(name, n.text)
		return ok && label != "" && !strings.Contains(label, ".")
	}
	rest, ok := strings.CutPrefix(name, n.text)
	return ok && rest != "" && !climbs(rest)
}

// climbs reports whether a path has a part that is "." or "..", also where its dots are
// escaped: it might be one above.
func climbs(path string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(strings.ToLower(path), "%2e", "."), "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// NamesOf returns the names of a certificate as ParseName reads them, at most 16 of each
// kind.
func NamesOf(c *x509.Certificate) []string {
	const most = 16
	var names []string
	for i := 0; i < len(c.URIs) && i < most; i++ {
		names = append(names, uri+c.URIs[i].String())
	}
	for i := 0; i < len(c.DNSNames) && i < most; i++ {
		names = append(names, dns+strings.ToLower(c.DNSNames[i]))
	}
	if c.Subject.CommonName != "" {
		names = append(names, cn+c.Subject.CommonName)
	}
	return names
}
