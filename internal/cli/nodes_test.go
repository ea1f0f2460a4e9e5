package cli

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestNodesThatAreNamed: each is asked once, in the order in which they are named.
func TestNodesThatAreNamed(t *testing.T) {
	addresses := func(f nodeAddresses) (list []string) {
		t.Helper()
		nodes, err := f.all(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range nodes {
			if nodes[i].AdminTokenFile != f.AdminTokenFile {
				t.Errorf("another token: %+v", nodes[i])
			}
			list = append(list, nodes[i].Admin+" "+nodes[i].Via)
		}
		return list
	}
	token := adminAddress{Admin: "https://a:1", AdminTokenFile: "t"}
	for _, tt := range []struct {
		f    nodeAddresses
		want string
	}{
		{nodeAddresses{}, " "},
		{nodeAddresses{adminAddress: token}, "https://a:1 "},
		{nodeAddresses{adminAddress: token, Nodes: []string{"https://b:2", "https://a:1", "unix:///x"}}, "https://a:1 ,https://b:2 ,unix:///x "},
		{nodeAddresses{Nodes: []string{"https://b:2"}}, "https://b:2 "},
		{nodeAddresses{Each: true, Nodes: []string{"https://[::1]:2", "http://127.0.0.1", "unix:///x", "https://127.0.0.1"}},
			"https://[::1]:2 [::1]:2,http://127.0.0.1 127.0.0.1:80,unix:///x ,https://127.0.0.1 127.0.0.1:443"},
	} {
		if got := strings.Join(addresses(tt.f), ","); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.f, got, tt.want)
		}
	}
	if got := addresses(nodeAddresses{Each: true, adminAddress: adminAddress{Admin: "http://localhost:9"}}); !slices.Contains(got, "http://localhost:9 127.0.0.1:9") && !slices.Contains(got, "http://localhost:9 [::1]:9") {
		t.Errorf("localhost is %q", got)
	}
}

func TestNodesThatCannotBeNamed(t *testing.T) {
	many := nodeAddresses{Nodes: make([]string, maxNodes+1)}
	for i := range many.Nodes {
		many.Nodes[i] = "https://h:" + strings.Repeat("1", i+1)
	}
	if _, err := many.all(t.Context()); err == nil || !strings.Contains(err.Error(), "hint: at most 256 at once") {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := (&nodeAddresses{Each: true, adminAddress: adminAddress{Admin: "https://nodes.invalid:1"}}).all(ended); err == nil || !strings.Contains(err.Error(), "--each: ") {
		t.Error(err)
	}
}

// TestNodeIsAskedVia: who is named by one of several addresses is asked there, by its name.
func TestNodeIsAskedVia(t *testing.T) {
	address, _ := explainingNode(t, "gate-1")
	_, port, _ := strings.Cut(strings.TrimPrefix(address.Admin, "http://"), ":")
	address.Admin, address.Via = "http://localhost:1", "127.0.0.1:"+port
	if _, err := address.tryAsk(t.Context(), "GET", "events", nil); err != nil {
		t.Error(err)
	}
	if got := address.label(); got != address.Via {
		t.Errorf("it is called %q", got)
	}
}
