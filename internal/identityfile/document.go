package identityfile

import (
	"time"

	"go.yaml.in/yaml/v4"
)

// document is the file as it is written.
type document struct {
	ClientIP      *clientIP    `yaml:"client_ip"`
	HashKeyFile   string       `yaml:"hash_key_file"`
	APIKey        *apiKey      `yaml:"api_key"`
	Token         *token       `yaml:"token"`
	Conflicts     string       `yaml:"conflicts"`
	AllowInvented bool         `yaml:"allow_invented"`
	Routes        []string     `yaml:"routes"`
	Descriptors   []descriptor `yaml:"descriptors"`
}

// clientIP says where the address of a client is read; see identity.ClientIPOptions.
type clientIP struct {
	Source    string   `yaml:"source"`
	Header    string   `yaml:"header"`
	Trusted   []string `yaml:"trusted"`
	Hops      int      `yaml:"hops"`
	LocalPeer string   `yaml:"local_peer"`
}

// apiKey says where an API key is sent; see identity.APIKeyOptions. Without Known all keys
// count as unverified.
type apiKey struct {
	Known *KnownKeys `yaml:"known"`
	// Unknown is address (the default), refuse, forbid or count.
	Unknown string `yaml:"unknown"`
	// Entries are those of descriptors in which callers send keys; see
	// Source.KeyEntries.
	Entries []string `yaml:"entries"`
	Headers []string `yaml:"headers"`
	Query   []string `yaml:"query"`
	Bearer  bool     `yaml:"bearer"`
}

// KnownKeys says who knows which API keys were given to someone: one of its fields.
type KnownKeys struct {
	// Accounts are those of the database of tenants.
	Accounts bool `yaml:"accounts"`
	// File has the hashes of keys, one a line. Its path lies beside the identity file.
	File string `yaml:"file"`
	// URL is asked, with {hash} for the hash of a key.
	URL string `yaml:"url"`
}

// token says which tokens are believed; see identity.TokenOptions and
// identity.KeySetOptions.
type token struct {
	Issuer        string        `yaml:"issuer"`
	Audiences     []string      `yaml:"audiences"`
	AnyAudience   bool          `yaml:"any_audience"`
	Algorithms    []string      `yaml:"algorithms"`
	JWKSURL       string        `yaml:"jwks_url"`
	JWKSFile      string        `yaml:"jwks_file"`
	AllowLoopback bool          `yaml:"allow_loopback"`
	Refresh       time.Duration `yaml:"refresh"`
	MaxAge        time.Duration `yaml:"max_age"`
	Leeway        time.Duration `yaml:"leeway"`
	AllowNoExpiry bool          `yaml:"allow_no_expiry"`
	Header        string        `yaml:"header"`
	Cookie        string        `yaml:"cookie"`
	Bearer        bool          `yaml:"bearer"`
	Bad           string        `yaml:"bad"`
}

type descriptor struct {
	Entries        []yaml.Node `yaml:"entries"`
	WhenUnverified bool        `yaml:"when_unverified"`
}

// choice is what an entry may be in place of one source: the first of several that
// has a value, or several that count together.
type choice struct {
	First []yaml.Node `yaml:"first"`
	All   []yaml.Node `yaml:"all"`
}

// source is one value of a request. Exactly one of the first five fields is set.
type source struct {
	Claim         string    `yaml:"claim"`
	Header        string    `yaml:"header"`
	Cookie        string    `yaml:"cookie"`
	Literal       *string   `yaml:"literal"`
	RemoteAddress *prefixes `yaml:"remote_address"`

	As          string `yaml:"as"`
	Secret      bool   `yaml:"secret"`
	TrustedPeer bool   `yaml:"trusted_peer"`
}

// prefixes are how many bits of an address name a client; 0 is the default.
type prefixes struct {
	IPv4 int `yaml:"ipv4"`
	IPv6 int `yaml:"ipv6"`
}
