// Package middleware shows package httplimit with net/http, chi, gin and echo.
// One set of limits serves all of them: httplimit is func(http.Handler)
// http.Handler, and each router has an adapter of a few lines.
package middleware

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

// ruleText is what the examples are limited by; a service would read it from a
// file, and share counts by a Redis store.
const ruleText = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: {name: per-address, unit: hour, requests_per_unit: 2}
`

// newLimits returns the limits of the examples.
func newLimits() (*httplimit.Middleware, error) {
	set, err := rulefile.Load([]rulefile.File{{Name: "shop.yaml", Data: []byte(ruleText)}}, rulefile.Options{})
	if err != nil {
		return nil, err
	}
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		return nil, err
	}
	return httplimit.New(limiter, httplimit.Options{
		Domain:    "shop",
		SkipPaths: []string{"/healthz"},
		Refund:    func(status int) bool { return status >= 500 },
	})
}
