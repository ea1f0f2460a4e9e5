package urlrules

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/headgate/headgate/internal/ascii"
)

// Keys are those by which requests to S3 are signed.
type Keys struct {
	ID, Secret string
	// Session is the token of keys that end; "" for others.
	Session string
}

// S3 says where objects are, and how requests for them are signed.
type S3 struct {
	// Region is that of the buckets, such as "eu-central-1".
	Region string
	// Endpoint is the address of a service that speaks like S3, such as
	// "https://minio.internal:9000"; nil is Amazon's own of the region.
	Endpoint *url.URL
	// Keys returns the keys; it is called anew for each request.
	Keys func() (Keys, error)
	// Now is the clock; nil means time.Now. A service refuses signatures of a clock that is more
	// than 15 minutes off.
	Now func() time.Time
}

// Source returns the source of an object: s3://bucket/key.
func (s *S3) Source(object *url.URL) Source {
	bucket, key := object.Host, strings.TrimPrefix(object.Path, "/")
	return Source{Name: Name(object), URL: s.address(bucket, key).String(), Authorize: s.sign, Stays: true}
}

// address returns the URL of an object. The bucket is in the host, as Amazon wants it, or in the
// path: other services seldom have a name of every bucket, and no certificate is for a name with
// a dot more.
func (s *S3) address(bucket, key string) *url.URL {
	host := "s3." + s.Region + ".amazonaws.com"
	if strings.HasPrefix(s.Region, "cn-") {
		host += ".cn"
	}
	u := &url.URL{Scheme: "https", Host: bucket + "." + host, Path: "/" + key}
	switch {
	case s.Endpoint != nil:
		u.Host, u.Path = s.Endpoint.Host, strings.TrimSuffix(s.Endpoint.Path, "/")+"/"+bucket+"/"+key
	case strings.Contains(bucket, "."):
		u.Host, u.Path = host, "/"+bucket+"/"+key
	}
	u.RawPath = escapePath(u.Path)
	return u
}

// escapePath escapes all but what signatures leave as it is, which is less than URLs do.
func escapePath(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("/-_.~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// noBody is the hash of the body of a request that has none.
var noBody = hex.EncodeToString(sha256.New().Sum(nil))

// sign signs a request by version 4 of Amazon's signatures.
func (s *S3) sign(r *http.Request) error {
	keys, err := s.Keys()
	if err != nil {
		return err
	}
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	r.Header.Set("X-Amz-Content-Sha256", noBody)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // S3 escapes once
	by := aws.Credentials{AccessKeyID: keys.ID, SecretAccessKey: keys.Secret, SessionToken: keys.Session}
	if err := signer.SignHTTP(r.Context(), by, r, noBody, "s3", s.Region, now()); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	return nil
}

// ParseKeys reads the profile called default of a file of credentials, as Amazon's own tools
// write them (~/.aws/credentials). Errors hold nothing of the file.
func ParseKeys(text []byte) (Keys, error) {
	var k Keys
	section, number := "default", 0
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSpace(strings.TrimSuffix(name, "]"))
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return Keys{}, fmt.Errorf("line %d is no name with a value; hint: aws_access_key_id = ID", number)
		}
		if section != "default" {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "aws_access_key_id":
			k.ID = value
		case "aws_secret_access_key":
			k.Secret = value
		case "aws_session_token":
			k.Session = value
		}
	}
	if lines.Err() != nil {
		return Keys{}, fmt.Errorf("line %d is too long; hint: is this a file of credentials?", number+1)
	}
	return k, k.Check()
}

// Check reports what keys lack.
func (k Keys) Check() error {
	switch {
	case k.ID == "" || k.Secret == "":
		return errors.New("no keys in it; hint: aws_access_key_id and aws_secret_access_key, of the profile default")
	case !ascii.IsVisible(k.ID + k.Secret + k.Session):
		return errors.New("keys have characters that no key has; hint: are there blanks or quotes?")
	}
	return nil
}
