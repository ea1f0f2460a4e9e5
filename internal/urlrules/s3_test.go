package urlrules

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// exampleKeys are those of the examples in Amazon's documents of S3's signatures.
var exampleKeys = Keys{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}

func exampleS3() *S3 {
	return &S3{
		Region: "us-east-1", Keys: func() (Keys, error) { return exampleKeys, nil },
		Now: func() time.Time { return time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC) },
	}
}

// TestSignature: the first of the examples in "Signature Calculations for the Authorization
// Header" of S3's API reference is signed as it is there.
func TestSignature(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://examplebucket.s3.amazonaws.com/test.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=0-9")
	if err := exampleS3().sign(r); err != nil {
		t.Fatal(err)
	}
	const want = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, " +
		"Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAddressesOfObjects(t *testing.T) {
	endpoint := &url.URL{Scheme: "https", Host: "minio:9000"}
	for object, want := range map[string][2]string{
		"s3://bucket/rules.yaml":     {"https://bucket.s3.eu-central-1.amazonaws.com/rules.yaml", "https://minio:9000/bucket/rules.yaml"},
		"s3://my.bucket/rules.yaml":  {"https://s3.eu-central-1.amazonaws.com/my.bucket/rules.yaml", "https://minio:9000/my.bucket/rules.yaml"},
		"s3://bucket/a b/c+d=e.yaml": {"https://bucket.s3.eu-central-1.amazonaws.com/a%20b/c%2Bd%3De.yaml", "https://minio:9000/bucket/a%20b/c%2Bd%3De.yaml"},
	} {
		u, err := url.Parse(object)
		if err != nil {
			t.Fatal(err)
		}
		s := S3{Region: "eu-central-1"}
		if got := s.Source(u).URL; got != want[0] {
			t.Errorf("%s at Amazon: %s", object, got)
		}
		s.Endpoint = endpoint
		if got := s.Source(u); got.URL != want[1] || !got.Stays {
			t.Errorf("%s at an endpoint: %s", object, got.URL)
		}
	}
	china := S3{Region: "cn-north-1"}
	if got := china.address("bucket", "r").String(); got != "https://bucket.s3.cn-north-1.amazonaws.com.cn/r" {
		t.Error(got)
	}
}

// TestS3DoesNotFollow: what is signed is for one address.
func TestS3DoesNotFollow(t *testing.T) {
	w := newWeb(t)
	w.says(http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect).ServeHTTP)
	endpoint, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := exampleS3()
	s.Endpoint = endpoint
	c := w.client(func(o *Options) {
		o.TLS = func() (*tls.Config, error) { return w.certificates.Client(), nil }
		o.Sources = []Source{s.Source(&url.URL{Scheme: "s3", Host: "bucket", Path: "/rules.yaml"})}
	})
	if _, err := c.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "s3://bucket/rules.yaml: it sends elsewhere") {
		t.Error(err)
	}
	if r := w.last(); r.URL.Path != "/bucket/rules.yaml" || !strings.Contains(r.Header.Get("Authorization"), "20130524/us-east-1/s3/aws4_request") {
		t.Errorf("asked for %s, by %s", r.URL.Path, r.Header.Get("Authorization"))
	}
}

func TestParseKeys(t *testing.T) {
	for text, want := range map[string]Keys{
		"[default]\naws_access_key_id = ID\naws_secret_access_key=a/b+c=\n":                                                                              {ID: "ID", Secret: "a/b+c="},
		"aws_access_key_id=ID\r\naws_secret_access_key=S\r\naws_session_token = T\r\n":                                                                   {"ID", "S", "T"},
		"# of ours\n[other]\naws_access_key_id=X\naws_secret_access_key=Y\n[ default ]\n;\nregion=z\naws_access_key_id=ID\naws_secret_access_key=S\n[z]": {ID: "ID", Secret: "S"},
	} {
		if got, err := ParseKeys([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "no keys in it", "[default]\naws_access_key_id=hush": "no keys in it", "[default]\nhush": "line 2 is no name with a value",
		"aws_access_key_id=\"hush\naws_secret_access_key=hu sh": "characters that no key has", strings.Repeat("hush", 1<<16): "line 1 is too long",
	} {
		if _, err := ParseKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hint: ") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// FuzzParseKeys: what is read can be sent, and an error holds nothing of the file.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("[default]\naws_access_key_id = ID\naws_secret_access_key=a/b+c=\n"))
	f.Add([]byte("[x]\n\x00=\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := ParseKeys(text)
		if err == nil && k.Check() != nil {
			t.Errorf("%q: %+v", text, k)
		}
	})
}
