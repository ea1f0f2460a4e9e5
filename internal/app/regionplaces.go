package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/store/redisstore"
)

// place is where the buckets of a store of Redis are, as far as its address says.
type place struct {
	servers []string
	db      int
	prefix  string
}

// placeOf returns the place of the store at u; false of stores of another kind.
func placeOf(u config.StoreURL) (place, bool) {
	switch u.Scheme() {
	case "memory", "memcached":
		return place{}, false
	}
	o, err := redisstore.ParseURL(u.Reveal())
	if err == nil {
		o, err = o.WithDefaults()
	}
	if err != nil {
		return place{}, false // who opens it says why
	}
	p := place{servers: []string{o.Network + " " + o.Addr}, db: o.DB, prefix: o.Prefix}
	switch {
	case o.Sentinel != nil:
		p.servers = nil
		for _, addr := range o.Sentinel.Addrs {
			p.servers = append(p.servers, "sentinel "+addr+" "+o.Sentinel.Master)
		}
	case len(o.Cluster) > 0:
		p.servers = nil
		for _, addr := range o.Cluster {
			p.servers = append(p.servers, "cluster "+addr)
		}
	}
	return p, true
}

// keys says which part of a server p is.
func (p *place) keys() string { return fmt.Sprintf("database %d and prefix %q", p.db, p.prefix) }

// is reports whether p and o are one place. That they are is not seen where a server has two names.
func (p *place) is(o *place) bool {
	return p.db == o.db && p.prefix == o.prefix && slices.ContainsFunc(p.servers, func(s string) bool {
		return slices.ContainsFunc(o.servers, func(other string) bool { return strings.EqualFold(s, other) })
	})
}

// checkPlaces returns why the stores of regions cannot be told of each other's hits, nil if their
// addresses do not speak against it. stores has the names of backends by region; the first backend
// is the one in which region counts.
func checkPlaces(region string, stores map[string]string, backends []backend) error {
	own, known := placeOf(backends[0].url)
	seen := map[string]place{} // by region
	for _, other := range slices.Sorted(maps.Keys(stores)) {
		name := stores[other]
		at := slices.IndexFunc(backends, func(b backend) bool { return b.name == name })
		if at < 1 {
			continue
		}
		p, ok := placeOf(backends[at].url)
		switch {
		case !ok:
			continue
		case known && other != region && p.is(&own):
			return fmt.Errorf("region %s: the store %s is that of --store, in which the region %s counts: each hit would count twice; hint: each region has a server, a database or a prefix of its own", other, name, region)
		case known && other == region && p.keys() != own.keys():
			return fmt.Errorf("region %s: the store %s has %s, and --store has %s: this region would not hear of the others; hint: the same server, database and prefix", other, name, p.keys(), own.keys())
		}
		for _, before := range slices.Sorted(maps.Keys(seen)) {
			if q := seen[before]; p.is(&q) {
				return fmt.Errorf("regions %s and %s: the stores %s and %s are one: each hit would count twice; hint: each region has a server, a database or a prefix of its own", before, other, stores[before], name)
			}
		}
		seen[other] = p
	}
	return nil
}
