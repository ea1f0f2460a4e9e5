// Package accesslog reads lines of access logs: the common and the combined format of Apache and
// nginx, the default format of Envoy, and CSV with a header. Each line is one request.
//
// It says what the line says and no more: who sent the request, and whether that is to be
// believed, is for whoever reads the result. It knows neither files nor limits.
package accesslog

import "errors"

// ErrNoRequest is for a line that is in order and about no request: what was sent had no request
// line, such as a connection of TLS to a port without, or a port scan.
var ErrNoRequest = errors.New("no request")
