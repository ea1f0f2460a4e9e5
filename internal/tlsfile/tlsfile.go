// Package tlsfile is TLS by files in PEM that are read again when they change: the
// certificate of this side, its key, and the authorities that the other side's
// certificate must be of. It is one room for both sides, for listeners and for
// connections to stores and databases.
//
// Files that cannot be used leave those before in force. A pair of files is seldom
// changed in one instant, so what is found wrong is told only when it is found twice.
//
// Nothing is read behind the caller's back: somebody calls Source.Reload now and then.
package tlsfile

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/regular"
)

// maxFile bounds each file, in bytes: all authorities that browsers trust have 250 KB.
const maxFile = 1 << 20

// Files names the files of one side, in PEM. The zero value is a client that shows no
// certificate and trusts the authorities of the system.
type Files struct {
	// Cert and Key are the chain of this side, its own certificate first, and the key
	// of that; both or neither. A server needs them.
	Cert, Key string
	// CA has the authorities that sign certificates of the other side. "" means for a
	// client those of the system, and for a server that clients are asked for none.
	CA string
}

// Source is what the files hold. It is safe for concurrent use, but no two calls of
// Reload may overlap. Make one with Load.
type Source struct {
	files   Files
	current atomic.Pointer[material]
	// refused is why what the files hold now is not in force; nil when it is.
	refused  atomic.Pointer[error]
	failures atomic.Uint64

	// Of Reload: contents that were found wrong once, and those that were told of.
	suspect, told [sha256.Size]byte
}

// material is what the files held at one time.
type material struct {
	digest      [sha256.Size]byte // of the files
	pair        *tls.Certificate  // nil without Cert
	authorities *x509.CertPool    // nil without CA
}

// State is how a Source is.
type State struct {
	// NotAfter is when the certificate in force expires, or the first one of its chain
	// that does; zero without a certificate.
	NotAfter time.Time
	// Refused is why what the files hold now is not in force, nil when it is.
	Refused error
	// Failures counts the changes of files that could not be used.
	Failures uint64
}

// Load reads the files.
func Load(files Files) (*Source, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("a certificate without its key, or a key without its certificate; hint: give both files")
	}
	s := &Source{files: files}
	texts, err := s.read()
	if err != nil {
		return nil, err
	}
	m, err := texts.parse(files)
	if err != nil {
		return nil, err
	}
	s.current.Store(m)
	return s, nil
}

// Reload reads the files again, and reports whether they have changed since it was
// called last. An error says why a change is not in force; it is told once for each
// change, and not before two calls have found the same. now is the time, by which a
// certificate that has expired does not take the place of one that has not.
func (s *Source) Reload(now time.Time) (changed bool, err error) {
	texts, err := s.read()
	digest := texts.digest()
	if err != nil {
		digest = sha256.Sum256([]byte(err.Error()))
	}
	before := s.current.Load()
	if digest == before.digest {
		s.refused.Store(nil)
		s.suspect, s.told = digest, digest
		return false, nil
	}
	if digest == s.told {
		return false, nil
	}
	var m *material
	if err == nil {
		m, err = texts.parse(s.files)
	}
	if err == nil {
		err = m.outlives(before, now)
	}
	if err != nil && digest != s.suspect {
		s.suspect = digest
		return false, nil
	}
	s.told = digest
	if err != nil {
		s.refused.Store(&err)
		s.failures.Add(1)
		return true, err
	}
	s.refused.Store(nil)
	s.current.Store(m)
	return true, nil
}

// State returns how s is.
func (s *Source) State() State {
	state := State{NotAfter: s.current.Load().notAfter(), Failures: s.failures.Load()}
	if err := s.refused.Load(); err != nil {
		state.Refused = *err
	}
	return state
}

// texts are the bytes of Files, nil for those that are not named.
type texts struct{ cert, key, ca []byte }

func (s *Source) read() (t texts, err error) {
	for _, file := range []struct {
		path string
		into *[]byte
	}{{s.files.Cert, &t.cert}, {s.files.Key, &t.key}, {s.files.CA, &t.ca}} {
		if file.path == "" {
			continue
		}
		if *file.into, err = regular.Read(file.path, maxFile); err != nil {
			return texts{}, err
		}
	}
	return t, nil
}

// digest tells contents apart. The parts are hashed first, so that no bytes can move
// from one to the next.
func (t *texts) digest() [sha256.Size]byte {
	var parts [3 * sha256.Size]byte
	for i, part := range [][]byte{t.cert, t.key, t.ca} {
		sum := sha256.Sum256(part)
		copy(parts[i*sha256.Size:], sum[:])
	}
	return sha256.Sum256(parts[:])
}

func (t *texts) parse(files Files) (*material, error) {
	m := &material{digest: t.digest()}
	if files.Cert != "" {
		pair, err := tls.X509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w; hint: PEM, the chain with its own certificate first, and the key of that", files.Cert, files.Key, err)
		}
		m.pair = &pair
	}
	if files.CA != "" {
		pool, err := authorities(t.ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; hint: certificates of authorities in PEM", files.CA, err)
		}
		m.authorities = pool
	}
	return m, nil
}

// authorities reads certificates. Unlike the pool of the library it leaves none out that
// it cannot read: an authority that is missing turns people away later.
func authorities(text []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%.40q among the authorities", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n+1, err)
		}
		pool.AddCert(certificate)
		n++
	}
	switch {
	case n == 0:
		return nil, errors.New("no certificate in it")
	case bytes.Contains(text, []byte("-----BEGIN ")):
		return nil, fmt.Errorf("what follows certificate %d cannot be read", n)
	}
	return pool, nil
}

// notAfter is when the first certificate of the chain expires; zero without one.
func (m *material) notAfter() time.Time {
	if m.pair == nil {
		return time.Time{}
	}
	end := m.pair.Leaf.NotAfter
	for _, der := range m.pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil && c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

// outlives refuses a certificate that has expired in place of one that has not.
func (m *material) outlives(before *material, now time.Time) error {
	if m.pair == nil || now.Before(m.notAfter()) || !now.Before(before.notAfter()) {
		return nil
	}
	return fmt.Errorf("the new certificate has expired at %v", m.notAfter().UTC().Format(time.RFC3339))
}
