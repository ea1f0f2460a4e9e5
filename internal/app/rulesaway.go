package app

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/tlsfile"
	"github.com/headgate/headgate/internal/urlrules"
)

// endpointRegion is the region that services which speak like S3 take when they have none.
const endpointRegion = "us-east-1"

// pollRules has the rules come from addresses, if there are any.
func (p *process) pollRules(r *config.RulesAway) error {
	if !r.AreAway() {
		return nil
	}
	o := urlrules.Options{
		Poll: p.settings.RulesPoll, Put: p.health.rules.PutGuarded, Unread: p.health.rules.Unread,
		Reached: p.metrics.RulesURLReached, Answered: func(o urlrules.Outcome) { p.metrics.RulesURLAnswered(string(o)) },
	}
	var err error
	if o.Sources, err = p.ruleSources(r); err != nil {
		return err
	}
	files := tlsfile.Files{Cert: r.RulesURLCert, Key: r.RulesURLKey, CA: r.RulesURLCA}
	o.TLS = func() (*tls.Config, error) {
		source, err := tlsfile.Load(files)
		if err != nil {
			return nil, fmt.Errorf("--rules-url: %w", err)
		}
		return source.Client(""), nil // whose name is that of each address
	}
	if _, err := o.TLS(); err != nil { // at the start, and not first when somebody dials
		return err
	}
	p.metrics.WatchRulesURL()
	p.away = urlrules.New(o)
	p.tasks = append(p.tasks, p.away.Run)
	return nil
}

// ruleSources returns the addresses of r, with what they are asked by.
func (p *process) ruleSources(r *config.RulesAway) ([]urlrules.Source, error) {
	list, err := r.RulesURL.List()
	if err != nil {
		return nil, err
	}
	s3, err := p.ruleBuckets(r)
	if err != nil {
		return nil, err
	}
	var all []urlrules.Source
	for _, u := range list {
		if u.Scheme == "s3" {
			all = append(all, s3.Source(u))
			continue
		}
		s := urlrules.Source{Name: urlrules.Name(u), URL: u.String()}
		if r.RulesURLToken != "" {
			s.Authorize = func(request *http.Request) error {
				token, err := credentials.ReadPassword(r.RulesURLToken)
				if err != nil {
					return fmt.Errorf("--rules-url-token: %w", err)
				}
				request.Header.Set("Authorization", "Bearer "+token)
				return nil
			}
		}
		all = append(all, s)
	}
	for _, s := range all { // what they are asked by is read at the start too
		if s.Authorize == nil {
			continue
		}
		request, err := http.NewRequest(http.MethodGet, "https://localhost/", nil)
		if err == nil {
			err = s.Authorize(request)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ruleBuckets returns how objects of S3 are asked for.
func (p *process) ruleBuckets(r *config.RulesAway) (*urlrules.S3, error) {
	getenv := p.options.Getenv
	endpoint, err := r.S3Endpoint()
	if err != nil {
		return nil, err
	}
	region := cmp.Or(r.RulesS3Region, getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"))
	if region == "" && endpoint != nil {
		region = endpointRegion
	}
	s3 := &urlrules.S3{Region: region, Endpoint: endpoint}
	s3.Keys = func() (urlrules.Keys, error) {
		if region == "" {
			return urlrules.Keys{}, errors.New("--rules-s3-region: none is named; hint: --rules-s3-region eu-central-1, or AWS_REGION")
		}
		if file := r.RulesS3Credentials; file != "" {
			text, err := credentials.ReadFile("file of keys", file)
			if err != nil {
				return urlrules.Keys{}, fmt.Errorf("--rules-s3-credentials: %w", err)
			}
			keys, err := urlrules.ParseKeys(text)
			if err != nil {
				return urlrules.Keys{}, fmt.Errorf("--rules-s3-credentials: %s: %w", file, err)
			}
			return keys, nil
		}
		keys := urlrules.Keys{ID: getenv("AWS_ACCESS_KEY_ID"), Secret: getenv("AWS_SECRET_ACCESS_KEY"), Session: getenv("AWS_SESSION_TOKEN")}
		if err := keys.Check(); err != nil {
			return urlrules.Keys{}, errors.New("there are no keys for S3; hint: --rules-s3-credentials FILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
		}
		return keys, nil
	}
	return s3, nil
}
