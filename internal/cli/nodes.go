package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
)

// nodeAddresses says where the admin APIs of several nodes are.
type nodeAddresses struct {
	adminAddress `embed:""`
	Each         bool     `env:"-" help:"Ask every address that a name in --admin stands for, such as that of a headless Service of Kubernetes."`
	Nodes        []string `arg:"" optional:"" placeholder:"URL" help:"Further nodes, by the addresses of their admin APIs; they are asked with the same token."`
}

// maxNodes bounds the nodes that are asked at once.
const maxNodes = 256

// all returns where each node is asked, in the order in which they are named.
func (f *nodeAddresses) all(ctx context.Context) (list []adminAddress, err error) {
	names := f.Nodes
	if f.Admin != "" || len(names) == 0 {
		names = append([]string{f.Admin}, names...)
	}
	for _, name := range names {
		one := f.adminAddress
		one.Admin = name
		each := []adminAddress{one}
		if f.Each {
			if each, err = one.each(ctx); err != nil {
				return nil, err
			}
		}
		for _, one := range each {
			if !slices.Contains(list, one) {
				list = append(list, one)
			}
		}
	}
	if len(list) > maxNodes {
		return nil, fmt.Errorf("%d nodes; hint: at most %d at once", len(list), maxNodes)
	}
	return list, nil
}

// each returns f for every address that its host stands for.
func (f *adminAddress) each(ctx context.Context) ([]adminAddress, error) {
	u, err := url.Parse(f.Admin)
	if err != nil || u.Hostname() == "" { // a socket, or what is told when it is asked
		return []adminAddress{*f}, nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	hosts, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("--each: %w; hint: a name that stands for all nodes, such as that of a headless Service", err)
	}
	slices.Sort(hosts)
	list := make([]adminAddress, len(hosts))
	for i, host := range hosts {
		list[i] = *f
		list[i].Via = net.JoinHostPort(host, port)
	}
	return list, nil
}

// label names f for a message.
func (f *adminAddress) label() string {
	if f.Via != "" {
		return f.Via
	}
	return nodeName(f.Admin)
}
