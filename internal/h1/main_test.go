package h1

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// net/http waits half a second before it closes connections that it has refused.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
