package adminapi

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/refusals"
)

// TestRefusalsOfLogins: whatever is wrong with a signed token, its refusal is counted for that
// reason, and a good one for none.
func TestRefusalsOfLogins(t *testing.T) {
	log := refusals.New(refusals.Options{})
	log.Serve(refusals.Admin)
	s := newTestHandler(t, nil, func(o *Options) { o.Refusals = log })
	i, stranger := newTestIssuer(t), newTestIssuer(t)
	i.serve()
	s.withIssuer(i, "")
	if err := readKeys(t, s.handler.options.Tokens); err != nil {
		t.Fatal(err)
	}
	now := s.clock()
	admin := claims{"groups": "platform-admins"}
	with := func(name string, value any) claims {
		all := maps.Clone(admin)
		all[name] = value
		return all
	}
	for _, c := range []struct {
		token string
		want  refusals.Reason
	}{
		{i.token("first", now, admin), refusals.None},
		{i.token("first", now, nil), refusals.WrongScope},
		{i.token("first", now, with("aud", "other")), refusals.BadClaims},
		{i.token("first", now, with("sub", nil)), refusals.BadClaims},
		{i.token("first", now, with("nbf", now.Add(time.Hour).Unix())), refusals.BadClaims},
		{i.token("first", now, with("exp", now.Add(-time.Hour).Unix())), refusals.Expired},
		{i.token("first", now, with("iss", "https://evil.example")), refusals.UnknownSigner},
		{signWith(t, "second", stranger.keys["first"], i.claims(now, admin)), refusals.UnknownSigner},
		{signWith(t, "first", stranger.keys["first"], i.claims(now, admin)), refusals.BadSignature},
		{unsigned(t, i.claims(now, admin)), refusals.BadSignature},
		{"hgat_nobody", refusals.UnknownToken},
	} {
		before := counted(log)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Prefix+"tiers", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+c.token)
		s.handler.ServeHTTP(httptest.NewRecorder(), r)
		if c.want != refusals.None {
			before[c.want]++
		}
		if got := counted(log); !reflect.DeepEqual(got, before) {
			t.Errorf("want one more for %v: %v, before %v", c.want, got, before)
		}
	}
}

// counted returns what the admin API has refused, by reason.
func counted(log *refusals.Log) map[refusals.Reason]uint64 {
	all := map[refusals.Reason]uint64{}
	for _, c := range log.Counts() {
		if c.Door == refusals.Admin {
			all[c.Reason] = c.Total
		}
	}
	return all
}
