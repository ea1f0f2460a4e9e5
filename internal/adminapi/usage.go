package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/usageview"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
	"github.com/headgate/headgate/tenantusage"
)

// usage is what accounts have used.
type usage struct {
	*Options
	lookups turns
}

func (u usage) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "usage", scope: Read, local: true, serve: u.many, id: "listUsage", summary: "Show what several accounts have used",
			query:   []parameter{{"name", "An account, as in the path of the others; repeated for each.", schema{"type": "array", "items": schema{"type": "string"}, "minItems": 1, "maxItems": tenantusage.MaxSubjects}}},
			answers: []reply{ok(usagesView{}, "What was used, in the order of the names."), notHere, unprocessable},
		},
		{
			method: http.MethodGet, path: "usage/{api_key}", scope: Read, local: true, serve: ofAccount(u.one), id: "getUsage", summary: "Show what an account has used",
			about:   "Asked of the store, which counts nothing for it, or of its replicas where its address says so: then stale_s is there. An account that is not there has the fallback tier.",
			answers: []reply{ok(usageview.Tenant{}, "What was used."), notHere, unprocessable},
		},
		{
			method: http.MethodPost, path: "usage/{api_key}/reset", scope: Write, serve: ofAccount(u.reset), id: "resetUsage", summary: "Forget what an account has used",
			about:   "Bans of its rules end too, and slots of those on concurrency are freed. The log of changes has it as an action, before it is done.",
			body:    &payload{kinds: jsonOnly, most: maxSmallBody, of: resetBody{}, about: "What is forgotten; without a body all that the account has used.", optional: true},
			answers: []reply{ok(usageview.Tenant{}, "What is used now."), notHere},
		},
		{
			method: http.MethodPost, path: "usage/{api_key}/refund", scope: Write, serve: ofAccount(u.refund), id: "refundUsage", summary: "Give hits back to an account",
			about:   "To all limits that a request with the descriptor charges. The log of changes has it as an action, before it is done.",
			body:    &payload{kinds: jsonOnly, most: maxSmallBody, of: refundBody{}, about: "What is given back."},
			answers: []reply{ok(usageview.Tenant{}, "What is used now."), notHere},
		},
		{
			method: http.MethodPost, path: "usage-tokens/{api_key}", scope: Write, serve: ofAccount(u.token), id: "makeUsageToken", summary: "Make a token for a customer",
			about:   "Who has it sees the usage of this account and nothing else. It is kept nowhere.",
			body:    &payload{kinds: jsonOnly, most: maxSmallBody, of: usageTokenBody{}, about: "How long it is good."},
			answers: []reply{created(usageTokenView{}, "The token."), notHere},
		},
	}
}

// usagesView is what several accounts have used.
type usagesView struct {
	Usage []usageview.Tenant `json:"usage"`
}

const (
	// maxLookups bounds the looks at usage at one time: each may ask the store for
	// tenantusage.MaxQuotas limits, and decisions are not to wait for that.
	maxLookups = 4
	// usageTimeout bounds how long the store is waited for.
	usageTimeout = 10 * time.Second
	// labelTimeout bounds how long the database is waited for where it only tells the
	// last letters of keys.
	labelTimeout = time.Second
	// maxUsageTokenTTL and usageTokenTTL bound how long a token for customers is good.
	maxUsageTokenTTL = 366 * 24 * time.Hour
	minUsageTokenTTL = time.Minute
)

var errNoLimiter = fail(http.StatusNotFound, "this process decides nothing: it has no limiter")

// one answers with what one account has used.
func (u usage) one(c *call, name quotas.Name) (*answer, error) {
	return u.answer(c, name, u.look)
}

// answer answers with what one account has used, as read tells.
func (u usage) answer(c *call, name quotas.Name, read usageReader) (*answer, error) {
	list, err := u.of(c, []quotas.Name{name}, read)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, list[0])
}

// usageReader is usage.look or usage.now.
type usageReader func(context.Context, []tenant.Subject) ([]tenantusage.Tenant, error)

// look tells what was used a moment ago at the latest, which is enough for who only looks.
func (u usage) look(ctx context.Context, subjects []tenant.Subject) ([]tenantusage.Tenant, error) {
	return u.Usage.Look(ctx, subjects)
}

// now tells what is used after what was done just before.
func (u usage) now(ctx context.Context, subjects []tenant.Subject) ([]tenantusage.Tenant, error) {
	return u.Usage.Usage(ctx, subjects)
}

// many answers with what several accounts have used.
func (u usage) many(c *call) (*answer, error) {
	texts := c.request.URL.Query()["name"]
	if len(texts) == 0 {
		return nil, badField(http.StatusBadRequest, "name", "missing; hint: ?name=tenant:acme&name=tenant:bolt")
	}
	names := make([]quotas.Name, len(texts))
	for i, text := range texts {
		var bad *problem
		if names[i], bad = parseName(text, "name", u.Hasher); bad != nil {
			return nil, bad
		}
	}
	list, err := u.of(c, names, u.look)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, usagesView{list})
}

func (u usage) of(c *call, names []quotas.Name, read usageReader) ([]usageview.Tenant, error) {
	if u.Usage == nil {
		return nil, errNoLimiter
	}
	ctx := c.within(usageTimeout)
	done, bad := u.lookups.look(ctx)
	if bad != nil {
		return nil, bad
	}
	defer done()
	subjects := make([]tenant.Subject, len(names))
	for i := range names {
		subjects[i] = names[i].Subject
	}
	usage, err := read(ctx, subjects)
	if err != nil {
		return nil, err
	}
	c.label(names)
	list := make([]usageview.Tenant, len(names))
	for i := range usage {
		list[i] = usageview.Of(&usage[i])
		list[i].APIKey = quotas.Masked(&sqltenant.Record{Subject: names[i].Subject, Last4: names[i].Last4})
	}
	return list, nil
}

// turns holds one value for each thing of a kind that is under way.
type turns chan struct{}

// wait waits for its turn. Where ctx ends before, full says what there is too much of, and seconds when to ask again.
func (t turns) wait(ctx context.Context, seconds int, full string) (done func(), bad *problem) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, later(seconds, "%s", full)
	}
}

// look waits for its turn to ask the store for many limits.
func (t turns) look(ctx context.Context) (done func(), bad *problem) {
	return t.wait(ctx, 1, "too many ask for usage or for explanations at once; hint: try again in a second")
}

// label fills in the last letters of API keys as far as the database tells them in
// time.
func (c *call) label(names []quotas.Name) {
	ctx := c.within(labelTimeout)
	for i := range names {
		if c.db == nil || names[i].Last4 != "" || names[i].Subject.Key != "api_key" {
			continue
		}
		r, err := c.db.Get(ctx, names[i].Subject)
		if err != nil {
			return
		}
		names[i].Last4 = r.Last4
	}
}

// resetBody is the body of a reset.
type resetBody struct {
	Descriptor *string `json:"descriptor,omitempty"`
	Domain     string  `json:"domain,omitempty"`
}

// reset forgets what an account has used.
func (u usage) reset(c *call, name quotas.Name) (*answer, error) {
	var body resetBody
	if len(c.body) > 0 {
		if bad := decodeBody(c.body, &body); bad != nil {
			return nil, bad
		}
	}
	var texts []string
	what := action{Name: "usage reset", Domain: body.Domain}
	if body.Descriptor != nil {
		text, bad := parseDescriptor(*body.Descriptor)
		if bad != nil {
			return nil, bad
		}
		texts, what.Descriptor = []string{text}, tenant.DescriptorText(text)
	}
	if bad := u.checkDomain(body.Domain, name.Subject.Key, false); bad != nil {
		return nil, bad
	}
	return u.act(c, name, what, func(ctx context.Context) error {
		return u.Usage.Reset(ctx, body.Domain, name.Subject, texts...)
	})
}

// refundBody is the body of a refund.
type refundBody struct {
	Descriptor *string `json:"descriptor"`
	Domain     string  `json:"domain,omitempty"`
	Hits       *int64  `json:"hits"`
}

// refund gives hits back.
func (u usage) refund(c *call, name quotas.Name) (*answer, error) {
	var body refundBody
	if bad := decodeBody(c.body, &body); bad != nil {
		return nil, bad
	}
	switch {
	case body.Descriptor == nil:
		return nil, badField(http.StatusUnprocessableEntity, "descriptor", "missing; hint: default for what has no quota of its own")
	case body.Hits == nil || *body.Hits < 1 || *body.Hits > limit.MaxQuota:
		return nil, badField(http.StatusUnprocessableEntity, "hits", "not a whole number from 1 to %d", int64(limit.MaxQuota))
	}
	text, bad := parseDescriptor(*body.Descriptor)
	if bad != nil {
		return nil, bad
	}
	if bad := u.checkDomain(body.Domain, name.Subject.Key, true); bad != nil {
		return nil, bad
	}
	domain := cmp.Or(body.Domain, u.Usage.Domains(name.Subject.Key)[0])
	return u.act(c, name, action{Name: "usage refund", Domain: domain, Descriptor: tenant.DescriptorText(text), Hits: *body.Hits}, func(ctx context.Context) error {
		return u.Usage.Refund(ctx, domain, name.Subject, text, *body.Hits)
	})
}

// action is what the log of changes has of something that changes nothing in the
// database.
type action struct {
	Name       string `json:"action"`
	Domain     string `json:"domain,omitempty"`
	Descriptor string `json:"descriptor,omitempty"`
	Hits       int64  `json:"hits,omitempty"`
	TTL        string `json:"ttl,omitempty"`
}

// note puts a into the log of changes.
func (c *call) note(ctx context.Context, name quotas.Name, a action) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return c.db.Note(ctx, sqltenant.Action{Actor: c.who.actor, At: c.now, Subject: name.Subject, Text: string(text)})
}

// act notes what changes nothing in the database, does it, and answers with what is used
// then.
func (u usage) act(c *call, name quotas.Name, a action, do func(context.Context) error) (*answer, error) {
	ctx := c.within(usageTimeout)
	if err := c.note(ctx, name, a); err != nil {
		return nil, err
	}
	switch err := do(ctx); {
	case errors.Is(err, tenantusage.ErrNoQuota):
		return nil, badField(http.StatusUnprocessableEntity, "descriptor", "nothing counts it; hint: GET usage says what is counted")
	case err != nil:
		u.OnError(err)
		return nil, later(1, "the store does not answer: it is not known whether that was done")
	}
	return u.answer(c, name, u.now)
}

// checkDomain refuses a domain in which accounts with that key have no quota, and, where
// just one is needed, several.
func (u usage) checkDomain(domain, key string, one bool) *problem {
	if u.Usage == nil {
		return errNoLimiter
	}
	names := u.Usage.Domains(key)
	switch {
	case len(names) == 0:
		return badField(http.StatusUnprocessableEntity, "api_key", "no rule with tenant: true counts by the entry %.64q; hint: tenant:ID, or another entry of such a rule; keys of other rules are not reset, and nothing is given back to them", key)
	case domain == "" && one && len(names) > 1:
		return badField(http.StatusUnprocessableEntity, "domain", "missing, and there are several; hint: one of %v", names)
	case domain != "" && !slices.Contains(names, domain):
		return badField(http.StatusUnprocessableEntity, "domain", "no such domain; hint: one of %v", names)
	}
	return nil
}

// parseDescriptor reads a descriptor of a body.
func parseDescriptor(text string) (string, *problem) {
	if hint := quotas.Deceptive(text); hint != "" {
		return "", badField(http.StatusUnprocessableEntity, "descriptor", "%s", hint)
	}
	canonical, err := tenant.ParseDescriptor(text)
	if err != nil {
		return "", badField(http.StatusUnprocessableEntity, "descriptor", "%v", err)
	}
	return canonical, nil
}

// usageTokenBody is the body of a request for a token.
type usageTokenBody struct {
	TTL string `json:"ttl"`
}

// usageTokenView is a token for a customer.
type usageTokenView struct {
	APIKey    string    `json:"api_key"`
	Name      string    `json:"name"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// token makes a token with which a customer sees his own usage.
func (u usage) token(c *call, name quotas.Name) (*answer, error) {
	if u.SignUsageToken == nil {
		return nil, fail(http.StatusNotFound, "tokens for customers are off: this process has no key to sign them with; hint: --usage-key FILE")
	}
	var body usageTokenBody
	if bad := decodeBody(c.body, &body); bad != nil {
		return nil, bad
	}
	ttl, err := time.ParseDuration(body.TTL)
	if err != nil || ttl < minUsageTokenTTL || ttl > maxUsageTokenTTL {
		return nil, badField(http.StatusUnprocessableEntity, "ttl", "not a time from %v to %v; hint: \"720h\"", minUsageTokenTTL, maxUsageTokenTTL)
	}
	if err := c.note(c.context(), name, action{Name: "usage token", TTL: ttl.String()}); err != nil {
		return nil, err
	}
	token, expires, err := u.SignUsageToken(name.Subject, ttl)
	if err != nil {
		return nil, badField(http.StatusUnprocessableEntity, "api_key", "%v", err)
	}
	c.label([]quotas.Name{name})
	r := sqltenant.Record{Subject: name.Subject, Last4: name.Last4}
	return jsonAnswer(http.StatusCreated, usageTokenView{quotas.Masked(&r), quotas.NameText(name.Subject), token, expires.UTC()})
}
