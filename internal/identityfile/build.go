package identityfile

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
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
		{"api_key", func() error { return o.buildAPIKey(d.APIKey, &made, &s) }},
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
	if d.onlyKeys() {
		made.Descriptors = byAddress()
	}
	s.Hasher = made.Hasher
	e, err := identity.NewExtractor(made)
	if err != nil {
		return nil, errors.New(keyNames.Replace(err.Error()))
	}
	s.Extractor = e
	return &s, nil
}

// keyNames puts the keys of the file in the place of what package identity calls the same.
var keyNames = strings.NewReplacer(
	"identity: ", "", "Descriptors", "descriptors", ".Entries", ".entries",
	"needs APIKeys", "needs api_key", "needs Tokens", "needs token", "needs Templates", "needs routes", "needs Hasher", "needs hash_key_file",
	"needs ClientIP with Trusted", "needs client_ip with trusted", "needs ClientIP", "needs client_ip",
)

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
	if o.Trusted, err = parseNetworks(c.Trusted); err != nil {
		return o, fmt.Errorf("trusted: %w", err)
	}
	if c.LocalPeer != "" {
		if o.LocalPeer, err = netip.ParseAddr(c.LocalPeer); err != nil {
			return o, errors.New("local_peer: no address; hint: 127.0.0.1")
		}
	}
	return o, nil
}

// parseNetworks reads networks such as 10.0.0.0/8; an address alone is the network
// of that address.
func parseNetworks(texts []string) ([]netip.Prefix, error) {
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

// onlyKeys reports whether the file says nothing of the requests of clients beside their
// address: it is for callers who say themselves what to limit on.
func (d *document) onlyKeys() bool {
	places := d.APIKey != nil && d.APIKey.hasPlaces()
	return len(d.Descriptors) == 0 && len(d.Routes) == 0 && d.Token == nil && !places && d.HashKeyFile != ""
}

// hasPlaces reports whether requests are looked at for keys.
func (k *apiKey) hasPlaces() bool { return len(k.Headers)+len(k.Query) > 0 || k.Bearer }

func (o *Options) buildAPIKey(k *apiKey, made *identity.Options, s *Source) error {
	if k == nil {
		return nil
	}
	if made.Hasher == nil {
		return errors.New("no hash_key_file: keys are hashed before they are counted; hint: openssl rand -base64 32 > hash.key, the same on all nodes")
	}
	if len(k.Entries) > maxKeyEntries || slices.Contains(k.Entries, "") {
		return fmt.Errorf("entries: %d of them, or an empty one; hint: at most %d keys of entries, such as [api_key]", len(k.Entries), maxKeyEntries)
	}
	if !k.hasPlaces() && (k.Known != nil || k.Unknown != "") {
		return errors.New("known, unknown: no request is looked at for keys, so that none would be refused; hint: headers: [X-API-Key], query or bearer")
	}
	if s.KeyEntries = k.Entries; k.Entries != nil && !k.hasPlaces() {
		return nil
	}
	made.APIKeys = &identity.APIKeyOptions{Headers: k.Headers, Query: k.Query, Bearer: k.Bearer}
	return o.buildKnown(k, made.APIKeys)
}

// unknownWords are what may become of a key that nobody was given.
var unknownWords = map[string]identity.Treatment{
	"": identity.Anonymous, "address": identity.Anonymous, "refuse": identity.Refuse, "forbid": identity.Forbid, "count": identity.CountUnverified,
}

func (o *Options) buildKnown(k *apiKey, made *identity.APIKeyOptions) (err error) {
	if k.Known == nil {
		if k.Unknown != "" {
			return errors.New("unknown: nobody says which keys are known; hint: known: {accounts: true}")
		}
		return nil
	}
	if made.Unknown, err = oneOf(k.Unknown, unknownWords, "address, refuse, forbid or count"); err != nil {
		return fmt.Errorf("unknown: %w", err)
	}
	from := *k.Known
	ways := 0
	for _, way := range []bool{from.Accounts, from.File != "", from.URL != ""} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return errors.New("known: one of accounts: true, file: FILE and url: URL")
	}
	made.Known = func(string) bool { return false }
	if o.Knows == nil {
		return nil
	}
	from.File = o.beside(from.File)
	if made.Known, made.Unsure, err = o.Knows(from); err != nil {
		return fmt.Errorf("known: %w", err)
	}
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
		return v, fmt.Errorf("unknown word; hint: %s%s", meant(word, maps.Keys(values)), hint)
	}
	return v, nil
}
