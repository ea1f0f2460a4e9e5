package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/keyfile"
	"github.com/headgate/headgate/internal/spelling"
	"github.com/headgate/headgate/internal/yamlfile"
)

const (
	// maxFile bounds a file of hooks, in bytes.
	maxFile = 1 << 20
	// maxReceivers bounds the receivers of a file: each has workers of its own.
	maxReceivers = 16
	// maxThresholds bounds those of one receiver.
	maxThresholds = 10
	// maxURL bounds an address, in bytes.
	maxURL = 2048
)

// Type is what an event says.
type Type string

// The types of events.
const (
	// NearExhaustion: a tenant has used a share of a limit, but not all of it.
	NearExhaustion Type = "quota.near_exhaustion"
	// Exhausted: a tenant has used all of a limit.
	Exhausted Type = "quota.exhausted"
)

// Config is a file of hooks, read. The zero value tells nobody and hears nobody.
type Config struct {
	// Out are those who are told.
	Out []Receiver
	// In are the keys that requests to Headgate are signed with; none: there are no
	// such requests.
	In []identity.Secret
}

// Receiver is who is told of events.
type Receiver struct {
	// URL is https, or http of this machine. It may hold a secret, and so stands in
	// no error and no log.
	URL *url.URL
	// Keys sign what is sent, each of them; at least one.
	Keys []identity.Secret
	// Thresholds are the shares of a limit, in percent from 1 to 100, that are told;
	// in order, at least one.
	Thresholds []int
	// Events are the types that are told, at least one.
	Events []Type
}

// document is the file as it is written.
type document struct {
	Out []yaml.Node `yaml:"out"`
	In  *struct {
		SecretFile string `yaml:"secret_file"`
	} `yaml:"in"`
}

type receiver struct {
	URL        string   `yaml:"url"`
	SecretFile string   `yaml:"secret_file"`
	Thresholds []int    `yaml:"thresholds"`
	Events     []string `yaml:"events"`
}

// Load reads the file at path:
//
//	out:
//	  - url: https://hooks.example.com/headgate
//	    secret_file: hooks.key       # see package keyfile; beside this file
//	    thresholds: [80, 100]        # percent of a limit, the default
//	    events: [quota.near_exhaustion, quota.exhausted]
//	in:
//	  secret_file: billing.key
//
// Errors begin with the file and the line, and hold neither an address nor a key.
func Load(path string) (*Config, error) {
	data, err := yamlfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	c, err := parse(data, func(name string) ([]identity.Secret, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		return keyfile.Read(name)
	})
	return c, yamlfile.In(path, err)
}

// parse reads the text of a file; read returns the keys of the file of a name.
func parse(data []byte, read func(name string) ([]identity.Secret, error)) (*Config, error) {
	var d document
	if err := yamlfile.Parse(data, &d); errors.Is(err, yamlfile.ErrEmpty) {
		return nil, errors.New("no hooks; hint: out with a list of receivers, or in with a secret_file")
	} else if err != nil {
		return nil, err
	}
	if len(d.Out) > maxReceivers {
		return nil, fmt.Errorf("out: %d receivers; hint: at most %d", len(d.Out), maxReceivers)
	}
	c := &Config{}
	for i := range d.Out {
		node := &d.Out[i]
		var r receiver
		if err := yamlfile.Node(node, &r); err != nil {
			return nil, err
		}
		made, err := r.make(read)
		if err != nil {
			return nil, yamlfile.At(node, "out[%d]: %w", i, err)
		}
		c.Out = append(c.Out, made)
	}
	if d.In != nil {
		var err error
		if c.In, err = keysOf(d.In.SecretFile, read); err != nil {
			return nil, fmt.Errorf("in: %w", err)
		}
	}
	return c, nil
}

func keysOf(name string, read func(string) ([]identity.Secret, error)) ([]identity.Secret, error) {
	if name == "" {
		return nil, errors.New("secret_file: missing; hint: openssl rand -base64 32 > hooks.key")
	}
	keys, err := read(name)
	if err != nil {
		return nil, fmt.Errorf("secret_file: %w", err)
	}
	return keys, nil
}

func (r *receiver) make(read func(string) ([]identity.Secret, error)) (made Receiver, err error) {
	if made.URL, err = parseURL(r.URL); err != nil {
		return made, fmt.Errorf("url: %w", err)
	}
	if made.Keys, err = keysOf(r.SecretFile, read); err != nil {
		return made, err
	}
	if made.Thresholds, err = thresholds(r.Thresholds); err != nil {
		return made, fmt.Errorf("thresholds: %w", err)
	}
	if made.Events, err = events(r.Events); err != nil {
		return made, fmt.Errorf("events: %w", err)
	}
	return made, nil
}

// parseURL reads the address of a receiver. Errors do not hold it.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("missing; hint: https://hooks.example.com/headgate")
	case err != nil || u.Hostname() == "" || len(text) > maxURL:
		return nil, errors.New("no address; hint: https://hooks.example.com/headgate")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("it holds a user, a password or a fragment; hint: leave them out, what is sent is signed")
	case u.Scheme != "https" && !(u.Scheme == "http" && loopbackName(u.Hostname())):
		return nil, errors.New("it is not https; hint: http is for localhost, 127.0.0.0/8 and ::1 alone")
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil {
		if err := checkIP(ip, u.Scheme); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func loopbackName(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

func thresholds(list []int) ([]int, error) {
	if len(list) == 0 {
		return []int{80, 100}, nil
	}
	if len(list) > maxThresholds {
		return nil, fmt.Errorf("%d of them; hint: at most %d", len(list), maxThresholds)
	}
	for _, t := range list {
		if t < 1 || t > 100 {
			return nil, fmt.Errorf("%d; hint: percent of a limit, 1 to 100", t)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(list))), nil
}

func events(list []string) ([]Type, error) {
	all := []Type{NearExhaustion, Exhausted}
	if len(list) == 0 {
		return all, nil
	}
	var types []Type
	for _, name := range list {
		if !slices.Contains(all, Type(name)) {
			return nil, spelling.Unknown("event", name, string(NearExhaustion), string(Exhausted))
		}
		if !slices.Contains(types, Type(name)) {
			types = append(types, Type(name))
		}
	}
	return types, nil
}
