package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
)

// maxTrouble bounds the bytes of what is logged of a failure to ask.
const maxTrouble = 256

// trouble is why there is no answer, as it may be logged. What is no HTTP is not repeated, because
// whatever answered may have sent back what it was asked: a client's cookies, or the token.
func trouble(err error) error {
	var timeout net.Error
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("no answer within timeout_ms")
	case errors.Is(err, http.ErrSchemeMismatch):
		return errors.New("it speaks http, and url says https")
	case errors.As(err, &certificate):
		return bounded(certificate.Error())
	case errors.As(err, &record):
		return bounded(record.Msg)
	case errors.As(err, &network):
		return bounded(network.Error())
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection ended before the answer")
	}
	return errors.New("the answer is not one of HTTP/1.1; hint: the port in url")
}

func bounded(text string) error {
	return errors.New(strings.ToValidUTF8(text[:min(len(text), maxTrouble)], ""))
}
