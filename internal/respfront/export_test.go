package respfront

import (
	"fmt"
	"strings"
)

// LoginTimeout is for how long a connection may be that of a stranger.
const LoginTimeout = loginTimeout

// IdleTimeout is for how long a caller that has come in may say nothing.
const IdleTimeout = idleTimeout

// Encode returns a command as clients send it.
func Encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}
