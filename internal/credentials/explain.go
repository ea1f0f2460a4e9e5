package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Explain says what an error of TLS, or of files with credentials, means to an operator.
// ok is false for errors that have nothing to do with them.
func Explain(err error) (hint string, ok bool) {
	var (
		file         *FileError
		verification *tls.CertificateVerificationError
		invalid      x509.CertificateInvalidError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		op           *net.OpError
	)
	switch {
	case errors.As(err, &file):
		return hintFile, true
	case errors.As(err, &record):
		return "the server does not speak TLS there: ask it without, or at its TLS port", true
	case errors.As(err, &hostname):
		return "the certificate is for another name: dial the server by that, or give server_name=NAME", true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate is not valid now: renew it, or set the clock of this machine", true
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &invalid):
		return "the certificate is not trusted: give its authority as ca=FILE, or add it to the system's (see SSL_CERT_FILE)", true
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return explainAlert(err.Error()), true
	}
	return "", false
}

// Hinted returns an error about a file with a hint, which it may have.
func Hinted(err error) error {
	if strings.Contains(err.Error(), "hint: ") {
		return err
	}
	return fmt.Errorf("%w; hint: %s", err, hintFile)
}

const hintFile = "the file must be there, whole, and readable for this process"

// explainAlert says what a server means that ends the handshake.
func explainAlert(text string) string {
	switch {
	case strings.Contains(text, "certificate required"):
		return "the server wants a certificate of this client: give cert=FILE and key=FILE"
	case strings.Contains(text, "expired certificate"):
		return "the certificate of this client has expired: renew the file of cert"
	case strings.Contains(text, "certificate"), strings.Contains(text, "error decrypting message"):
		return "the server does not trust the certificate of this client: is it of an authority that the server knows?"
	case strings.Contains(text, "protocol version"):
		return "the server speaks no version of TLS that this client takes: see min_tls"
	}
	return "the server refused the TLS handshake: it may want a certificate of this client (cert=FILE and key=FILE)"
}

// soon is how long before its end a certificate is worth a word.
const soon = 7 * 24 * time.Hour

// Ends says until when a certificate is valid, and whether that is less than a week after
// now.
func Ends(c *x509.Certificate, now time.Time) (until string, renew bool) {
	return "valid until " + c.NotAfter.UTC().Format(time.DateOnly), c.NotAfter.Sub(now) < soon
}
