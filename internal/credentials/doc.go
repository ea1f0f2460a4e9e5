// Package credentials has what a client shows to a server, and which servers it trusts:
// certificates and passwords in files, which are read again for each new connection when
// they have changed, so that neither needs a restart.
//
// It reads the parameters of URLs that name such files, loads them, and says what the
// errors of TLS mean to an operator. It connects to nothing.
package credentials
