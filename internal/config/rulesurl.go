package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// maxRulesURLs bounds the addresses of rules.
const maxRulesURLs = 16

// RulesURLs name documents of rules that are elsewhere. Their queries may hold secrets, so that
// every way to print them prints them without; only List does not. The zero value names none.
type RulesURLs struct{ covered[rulesText] }

type rulesText struct{}

// List returns the addresses, checked. Its errors never quote one.
func (u RulesURLs) List() ([]*url.URL, error) {
	if u.raw == "" {
		return nil, nil
	}
	return rulesURLs(u.raw)
}

func rulesURLs(raw string) (list []*url.URL, err error) {
	seen := map[string]bool{}
	for part := range strings.SplitSeq(raw, ",") {
		address, err := url.Parse(strings.TrimSpace(part))
		if err == nil {
			err = checkRulesURL(address)
		} else {
			err = errors.New("not a URL; hint: https://host/rules.yaml; a comma within one is %2C")
		}
		if err == nil && seen[shown(address)] {
			err = errors.New("two addresses are the same but for their queries; hint: each has a path of its own")
		}
		if err != nil {
			return nil, fmt.Errorf("--rules-url: %w", err)
		}
		seen[shown(address)] = true
		list = append(list, address)
	}
	if len(list) > maxRulesURLs {
		return nil, fmt.Errorf("--rules-url: more than %d addresses; hint: a document may hold several domains", maxRulesURLs)
	}
	return list, nil
}

// checkRulesURL refuses what cannot be asked, and what would be asked in the clear.
func checkRulesURL(u *url.URL) error {
	const hint = "; hint: https://host/rules.yaml, or s3://bucket/rules.yaml"
	switch {
	case u.Scheme == "http":
		return errors.New("without TLS anybody on the way can write rules" + hint)
	case u.Scheme != "https" && u.Scheme != "s3", u.Host == "":
		return errors.New("not an address of HTTPS or S3" + hint)
	case u.User != nil:
		return errors.New("a user in the URL; hint: --rules-url-token, or --rules-s3-credentials")
	case u.Fragment != "":
		return errors.New("a fragment in the URL; hint: leave it out")
	case u.Scheme == "s3" && (u.RawQuery != "" || u.Port() != ""):
		return errors.New("a query or a port in an address of S3; hint: s3://bucket/rules.yaml, and --rules-s3-endpoint")
	case u.Scheme == "s3" && !bucketName.MatchString(u.Host):
		return errors.New("not the name of a bucket, which has 3 to 63 lower-case letters, digits, dots and hyphens; hint: s3://bucket/rules.yaml")
	case strings.Trim(u.Path, "/") == "", u.Scheme == "s3" && strings.HasSuffix(u.Path, "/"):
		return errors.New("no document is named" + hint)
	}
	return nil
}

var (
	bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	regionName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
)

func shown(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

func (rulesText) shown(raw string) string {
	list, err := rulesURLs(raw)
	if err != nil {
		return hidden
	}
	var texts []string
	for _, address := range list {
		texts = append(texts, shown(address))
	}
	return strings.Join(texts, ",")
}

// RulesAway are the settings of rules that are at addresses of HTTPS or in S3. The zero value has
// none.
type RulesAway struct {
	// RulesURL are the addresses; none by default.
	RulesURL RulesURLs `group:"rules" name:"rules-url" placeholder:"URL,..." help:"Addresses of rule files, https://host/rules.yaml or s3://bucket/rules.yaml, in place of --rules: 16 at most. Asked every --rules-poll, by ETag. Default: none."`
	// RulesURLCA, RulesURLCert and RulesURLKey are files in PEM.
	RulesURLCA   string `group:"rules" name:"rules-url-ca" placeholder:"FILE" help:"Authorities in PEM that have signed the certificates of --rules-url. Read again each time. Default: those of the system."`
	RulesURLCert string `group:"rules" name:"rules-url-cert" placeholder:"FILE" help:"Certificate chain in PEM that this process shows where --rules-url asks for one. Read again each time."`
	RulesURLKey  string `group:"rules" name:"rules-url-key" placeholder:"FILE" help:"Key of --rules-url-cert in PEM."`
	// RulesURLToken is a file.
	RulesURLToken string `group:"rules" name:"rules-url-token" placeholder:"FILE" help:"File of a token that is shown to the addresses of HTTPS, as Authorization: Bearer. Read again each time."`
	// RulesS3Region is that of the buckets; "" is what the environment of Amazon's tools says.
	RulesS3Region string `group:"rules" name:"rules-s3-region" env:"HEADGATE_RULES_S3_REGION" placeholder:"REGION" help:"Region of the buckets in --rules-url. Default: AWS_REGION, then AWS_DEFAULT_REGION; us-east-1 with --rules-s3-endpoint."`
	// RulesS3Endpoint is a service that speaks like S3; "" is Amazon's.
	RulesS3Endpoint string `group:"rules" name:"rules-s3-endpoint" env:"HEADGATE_RULES_S3_ENDPOINT" placeholder:"URL" help:"Service that speaks like S3, https://host:port. Default: Amazon's of the region."`
	// RulesS3Credentials is a file of Amazon's tools; "" is their environment.
	RulesS3Credentials string `group:"rules" name:"rules-s3-credentials" env:"HEADGATE_RULES_S3_CREDENTIALS" placeholder:"FILE" help:"File of keys as Amazon's tools write it, of which the profile default is taken. Read again each time. Default: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN."`
}

// AreAway reports whether rules are at addresses.
func (r *RulesAway) AreAway() bool { return r.RulesURL != RulesURLs{} }

// S3Endpoint returns RulesS3Endpoint, checked; nil without one.
func (r *RulesAway) S3Endpoint() (*url.URL, error) {
	if r.RulesS3Endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(r.RulesS3Endpoint)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("--rules-s3-endpoint: not an address of HTTPS alone; hint: https://minio.internal:9000")
	}
	return u, nil
}

func (s *Settings) validateRulesAway() error {
	r := &s.RulesAway
	s3, web := false, false
	list, err := r.RulesURL.List()
	for _, u := range list {
		s3, web = s3 || u.Scheme == "s3", web || u.Scheme == "https"
	}
	if !r.AreAway() {
		return unused("rules-url", "rules are in files", given{"rules-url-ca", r.RulesURLCA != ""}, given{"rules-url-cert", r.RulesURLCert != ""},
			given{"rules-url-key", r.RulesURLKey != ""}, given{"rules-url-token", r.RulesURLToken != ""}, given{"rules-s3-region", r.RulesS3Region != ""},
			given{"rules-s3-endpoint", r.RulesS3Endpoint != ""}, given{"rules-s3-credentials", r.RulesS3Credentials != ""})
	}
	if err != nil {
		return err
	}
	_, err = r.S3Endpoint()
	return errors.Join(
		err,
		refuse(s.Rules != "" || s.XDSServer != "", "--rules-url: --rules or --xds-server has the rules too; hint: one of the three"),
		alone("rules-url", r.RulesURLCert, r.RulesURLKey),
		refuse(!web && r.RulesURLToken != "", "--rules-url-token: no address of --rules-url is one of HTTPS; hint: --rules-s3-credentials"),
		refuse(!s3 && (r.RulesS3Region != "" || r.RulesS3Endpoint != "" || r.RulesS3Credentials != ""), "--rules-s3-region, --rules-s3-endpoint, --rules-s3-credentials: no address of --rules-url is one of S3; hint: s3://bucket/rules.yaml"),
		refuse(r.RulesS3Region != "" && !regionName.MatchString(r.RulesS3Region), "--rules-s3-region: not the name of a region; hint: eu-central-1"),
	)
}
