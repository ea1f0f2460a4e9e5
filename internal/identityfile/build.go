package identityfile

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/yamlfile"
)

// build makes the parts that the sources of d need.
func (o *Options) build(d *document) (*Source, error) {
	var s Source
	var made identity.Options
	for _, part := range []struct {
		key  string
		make func() error
	}{
		{"client_ip", func() error { return o.buildClientIP(d.ClientIP, &made) }},
		{"hash_key_file", func() error { return o.buildHasher(d.HashKeyFile, &made) }},
		{"api_key", func() error { return buildAPIKey(d.APIKey, &made) }},
		{"token", func() error { return o.buildToken(d.Token, &made, &s) }},
		{"conflicts", func() (err error) { made.Conflicts, err = treatment(d.Conflicts); return err }},
		{"routes", func() error { return buildRoutes(d.Routes, &made) }},
		{"descriptors", func() error { return buildDescriptors(d.Descriptors, &made) }},
	} {
		if err := part.make(); err != nil {
			return nil, fmt.Errorf("%s: %w", part.key, err)
		}
	}
	made.AllowInvented = d.AllowInvented
	e, err := identity.NewExtractor(made)
	if err != nil {
		return nil, err
	}
	s.Extractor = e
	return &s, nil
}

func (o *Options) buildClientIP(c *clientIP, made *identity.Options) (err error) {
	options := o.clients()
	if c != nil {
		if options, err = c.options(); err != nil {
			return err
		}
	}
	made.ClientIP, err = identity.NewClientIP(options)
	return err
}

func (c *clientIP) options() (identity.ClientIPOptions, error) {
	o := identity.ClientIPOptions{Hops: c.Hops, Header: c.Header}
	var err error
	if o.Source, err = oneOf(c.Source, map[string]identity.AddressSource{
		"": identity.PeerOnly, "peer": identity.PeerOnly, "x_forwarded_for": identity.ForwardedFor,
		"forwarded": identity.Forwarded, "header": identity.SingleHeader,
	}, "peer, x_forwarded_for, forwarded or header"); err != nil {
		return o, fmt.Errorf("source: %w", err)
	}
	if o.Trusted, err = ParseNetworks(c.Trusted); err != nil {
		return o, fmt.Errorf("trusted: %w", err)
	}
	if c.LocalPeer != "" {
		if o.LocalPeer, err = netip.ParseAddr(c.LocalPeer); err != nil {
			return o, fmt.Errorf("local_peer: %.40q is no address; hint: 127.0.0.1", c.LocalPeer)
		}
	}
	return o, nil
}

// ParseNetworks reads networks such as 10.0.0.0/8; an address alone is the network
// of that address.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			networks = append(networks, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%.60q is no network; hint: 10.0.0.0/8, 2001:db8::/32 or one address", text)
		}
		networks = append(networks, network.Masked())
	}
	return networks, nil
}

func (o *Options) buildHasher(name string, made *identity.Options) error {
	if name == "" {
		return nil
	}
	key, err := yamlfile.Read(o.beside(name), maxHashKey)
	if err != nil {
		return err
	}
	made.Hasher, err = identity.NewHasher(identity.NewSecret(strings.TrimRight(string(key), "\r\n")))
	return err
}

func buildAPIKey(k *apiKey, made *identity.Options) error {
	if k == nil {
		return nil
	}
	if made.Hasher == nil {
		return errors.New("no hash_key_file: keys are hashed before they are counted; hint: openssl rand -base64 32 > hash.key, the same on all nodes")
	}
	made.APIKeys = &identity.APIKeyOptions{Headers: k.Headers, Query: k.Query, Bearer: k.Bearer}
	return nil
}

func (o *Options) buildToken(t *token, made *identity.Options, s *Source) (err error) {
	if t == nil {
		return nil
	}
	if made.BadTokens, err = treatment(t.Bad); err != nil {
		return fmt.Errorf("bad: %w", err)
	}
	if s.keys, err = identity.NewKeySet(identity.KeySetOptions{
		URL: t.JWKSURL, File: o.beside(t.JWKSFile), AllowLoopback: t.AllowLoopback,
		Refresh: t.Refresh, MaxAge: t.MaxAge, OnRefresh: o.OnRefresh,
	}); err != nil {
		return err
	}
	algorithms := make([]identity.Algorithm, len(t.Algorithms))
	for i, name := range t.Algorithms {
		algorithms[i] = identity.Algorithm(name)
	}
	made.TokenPlaces = identity.TokenPlaces{Header: t.Header, Cookie: t.Cookie, Bearer: t.Bearer}
	made.Tokens, err = identity.NewTokenVerifier(identity.TokenOptions{
		Keys: s.keys, Algorithms: algorithms, Issuer: t.Issuer, Audiences: t.Audiences, AnyAudience: t.AnyAudience,
		Leeway: t.Leeway, AllowNoExpiry: t.AllowNoExpiry,
	})
	return err
}

func buildRoutes(routes []string, made *identity.Options) (err error) {
	if len(routes) > 0 {
		made.Templates, err = identity.NewTemplates(routes...)
	}
	return err
}

func buildDescriptors(list []descriptor, made *identity.Options) error {
	for _, d := range list {
		built := identity.Descriptor{WhenUnverified: d.WhenUnverified}
		for i := range d.Entries {
			p, err := preference(&d.Entries[i])
			if err != nil {
				return err
			}
			built.Entries = append(built.Entries, p)
		}
		made.Descriptors = append(made.Descriptors, built)
	}
	return nil
}

func treatment(word string) (identity.Treatment, error) {
	return oneOf(word, map[string]identity.Treatment{
		"": identity.Anonymous, "anonymous": identity.Anonymous, "refuse": identity.Refuse,
	}, "anonymous (default) or refuse")
}

// oneOf returns the value of a word.
func oneOf[T any](word string, values map[string]T, hint string) (T, error) {
	v, ok := values[word]
	if !ok {
		return v, fmt.Errorf("unknown word %.40q; hint: %s", word, hint)
	}
	return v, nil
}
