package memcachestore

import (
	"testing"

	"github.com/headgate/headgate/store/storetest"
)

// TestConformance runs the suite on the algorithms that there are.
//
//promise:stores
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s, _ := openMemcached(t, 2)
		return storetest.Harness{Store: s, SetNow: setClock(s), Supports: Supports}
	})
}
