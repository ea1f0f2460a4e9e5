package identityfile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/yamlfile"
)

const (
	// maxBytes bounds the file: 4,096 routes of a hundred bytes have 400 KiB.
	maxBytes = 1 << 20
	// maxHashKey bounds the file that holds the key of hashes.
	maxHashKey = 4 << 10
	// maxKeyEntries bounds Source.KeyEntries: they are compared one by one.
	maxKeyEntries = 8
)

// Source tells who asks. Make one with Load.
type Source struct {
	// Extractor turns requests into descriptors.
	Extractor *identity.Extractor
	// Hasher makes names of secrets; nil where the file has no key for that.
	Hasher *identity.Hasher
	// KeyEntries are the keys of entries in which callers who send descriptors of their
	// own send API keys as they are. nil: the file does not say; empty: none.
	KeyEntries []string

	keys *identity.KeySet // nil: no tokens
}

// Options are what a way in says beside the file.
type Options struct {
	// Path is the file. "" means none: requests are limited on the address of the
	// client, and on the address and the method.
	Path string
	// Proxies are the networks of the proxies in front, which append to
	// X-Forwarded-For. They count where the file has no client_ip of its own.
	Proxies []netip.Prefix
	// LocalPeer stands for a peer on a unix socket, where the file has no client_ip
	// of its own. The zero value refuses such requests.
	LocalPeer netip.Addr
	// Vouched, when not nil, reports whether a peer is a proxy in front though its address is
	// not in Proxies; where the file has no client_ip.
	Vouched identity.Vouch
	// Knows returns what is asked whether an API key was given to someone; see
	// identity.APIKeyOptions. nil: no key is known.
	Knows func(KnownKeys) (known, unsure func(hashed string) bool, err error)
	// OnRefresh, when not nil, is told of every read of the keys of tokens by Run.
	OnRefresh func(error)
}

// Load reads the file. It opens the files that this one names and fetches nothing.
// The error names the file, and the line where it is known, and holds no secret.
func Load(o Options) (*Source, error) {
	if o.Path == "" {
		return o.withoutFile()
	}
	data, err := yamlfile.Read(o.Path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	s, err := o.parse(data)
	return s, yamlfile.In(o.Path, err)
}

// Refresh reads the keys of tokens now, so that the first tokens are good. It does
// nothing where no tokens are verified.
func (s *Source) Refresh(ctx context.Context) error {
	if s.keys == nil {
		return nil
	}
	return s.keys.Refresh(ctx)
}

// Run keeps the keys of tokens fresh until ctx ends.
func (s *Source) Run(ctx context.Context) {
	if s.keys != nil {
		_ = s.keys.Run(ctx) // the error is ctx's
	}
}

// withoutFile counts on what no client can invent.
func (o *Options) withoutFile() (*Source, error) {
	clients, err := identity.NewClientIP(o.clients())
	if err != nil {
		return nil, err
	}
	e, err := identity.NewExtractor(identity.Options{ClientIP: clients, Descriptors: byAddress()})
	if err != nil {
		return nil, err
	}
	return &Source{Extractor: e}, nil
}

// byAddress is what requests are limited on where nobody says it.
func byAddress() []identity.Descriptor {
	address := identity.FirstOf(words["remote_address"])
	method := identity.FirstOf(words["method"])
	return []identity.Descriptor{
		{Entries: []identity.Preference{address}},
		{Entries: []identity.Preference{address, method}},
	}
}

// clients returns how the client's address is told without a file.
func (o *Options) clients() identity.ClientIPOptions {
	c := identity.ClientIPOptions{LocalPeer: o.LocalPeer}
	if len(o.Proxies) > 0 {
		c.Trusted, c.Source, c.Vouched = o.Proxies, identity.ForwardedFor, o.Vouched
	}
	return c
}

func (o *Options) parse(data []byte) (*Source, error) {
	var d document
	if err := yamlfile.Parse(data, &d); errors.Is(err, yamlfile.ErrEmpty) {
		return nil, errors.New("empty; hint: descriptors: [{entries: [remote_address]}]")
	} else if err != nil {
		return nil, err
	}
	return o.build(&d)
}

// beside returns the path of a file named in the file: relative ones lie beside it.
func (o *Options) beside(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(o.Path), name)
}
