package identity

import "testing"

// TestProxyListenerLocalIsNoAddress: that peers without an IP address are proxies makes none of
// those with one.
func TestProxyListenerLocalIsNoAddress(t *testing.T) {
	o := fromOurs
	o.TrustLocal = true
	_, conn, far := accept(t, o, "198.51.100.7:5")
	go func() {
		_, _ = far.Write([]byte("PROXY TCP4 203.0.113.9 10.0.0.1 12345 443\r\n"))
		far.Close()
	}()
	if got := conn.RemoteAddr().String(); got != "198.51.100.7:5" {
		t.Errorf("remote %s", got)
	}
}
