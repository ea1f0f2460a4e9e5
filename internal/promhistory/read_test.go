package promhistory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// now is a whole minute.
var now = time.Unix(1_800_000_000, 0)

// reader returns a Reader of a server that answers as handler does.
func reader(t *testing.T, handler http.HandlerFunc, edit ...func(*Options)) *Reader {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{URL: u}
	for _, e := range edit {
		e(&o)
	}
	r := New(o)
	t.Cleanup(r.Close)
	return r
}

// matrix is an answer of such series.
func matrix(result ...string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(result, ",") + `]}}`
}

func answering(bodies map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for part, body := range bodies {
			if strings.Contains(r.FormValue("query"), part) {
				_, _ = w.Write([]byte(body))
				return
			}
		}
		http.Error(w, "no such question", http.StatusBadRequest)
	}
}

// What Prometheus tells of each outcome comes together by its instant; what it does not tell is no point.
func TestRead(t *testing.T) {
	end := now.Unix()
	var forms []url.Values
	answer := answering(map[string]string{
		"headgate_requests_total": matrix(
			fmt.Sprintf(`{"metric":{"outcome":"allowed"},"values":[[%d,"2"],[%d.000,"3.5"]]}`, end-600, end),
			fmt.Sprintf(`{"metric":{"outcome":"denied"},"values":[[%d,"1"]]}`, end)),
		"quantile(0.5,":  matrix(fmt.Sprintf(`{"metric":{},"values":[[%d,"NaN"],[%d,"0.001"]]}`, end-600, end)),
		"quantile(0.99,": matrix(),
	})
	r := reader(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/at/api/v1/query_range" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s, %s", r.URL.Path, r.Header.Get("Authorization"))
		}
		_ = r.ParseForm()
		forms = append(forms, r.Form)
		answer(w, r)
	}, func(o *Options) {
		o.URL = o.URL.JoinPath("at")
		o.Layer, o.Token = "edge", func() (string, error) { return "secret", nil }
	})
	got, err := r.Read(t.Context(), Question{From: now.Add(-time.Hour), To: now, Most: 750, Node: `gate.1"`})
	if err != nil {
		t.Fatal(err)
	}
	want := []view.PrometheusPoint{
		{At: now.Add(-15 * time.Minute).UTC(), Rates: view.Requests{Allowed: 2}},
		{At: now.Add(-5 * time.Minute).UTC(), Rates: view.Requests{Allowed: 3.5, Denied: 1}, P50: 0.001},
	}
	if got.Step != 300 || fmt.Sprint(got.Points) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	const selected = `{layer="edge",instance=~"gate\\.1\"(:[0-9]+)?"}[300s]`
	if f := forms[0]; len(forms) != 3 || f.Get("query") != "sum by (outcome) (rate(headgate_requests_total"+selected+"))" ||
		f.Get("start") != fmt.Sprint(end-11*300) || f.Get("end") != fmt.Sprint(end) || f.Get("step") != "300" {
		t.Errorf("%v", forms)
	}
}

func TestSteps(t *testing.T) {
	for _, tt := range []struct {
		length      time.Duration
		most        int
		step, count int64
	}{
		{0, 1, 300, 0},
		{299 * time.Second, 10, 300, 0},
		{5 * time.Minute, 10, 300, 1},
		{time.Hour, 1, 3600, 1},
		{time.Hour, 7, 540, 6},
		{30 * 24 * time.Hour, 750, 3480, 744},
		{90 * 24 * time.Hour, 750, 10380, 749},
		{MaxRange, MaxSteps, 34560, 1000},
		{210_699 * time.Second, 700, 360, 585}, // 702 steps of 300 s
	} {
		at := stepsOf(Question{From: now.Add(-tt.length), To: now, Most: tt.most})
		if at.step != tt.step || int64(at.count) != tt.count || tt.count > 0 && at.first+at.step*(tt.count-1) != now.Unix() {
			t.Errorf("%v in %d: %+v", tt.length, tt.most, at)
		}
	}
}

// Each hostile answer is refused, in words that say what to do and hold no secret.
func TestHostileAnswers(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("Authorization"), code)
		}
	}
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	allowed := func(values string) http.HandlerFunc {
		return answering(map[string]string{
			"headgate_requests_total": matrix(`{"metric":{"outcome":"allowed"},"values":[` + values + `]}`),
			"quantile":                matrix(),
		})
	}
	at := now.Unix()
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		kind    Kind
		want    string
	}{
		"401":      {status(401), Away, "refuses who asks (401); hint: a token in --prometheus-token-file"},
		"403":      {status(403), Away, "refuses who asks (403)"},
		"404":      {status(404), Away, "there is no Prometheus (404); hint: --prometheus-url"},
		"too much": {status(422), Away, "hint: ask for less"},
		"500":      {status(500), Away, "answers with 500"},
		"sent on": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		}, Away, "there is no Prometheus (307)"},
		"endless":       {body(strings.Repeat(" ", maxAnswer+1)), Away, "has more than 1048576 bytes"},
		"no metrics":    {body(matrix()), Unknown, "has no headgate_requests_total of this time; hint: does it scrape"},
		"HTML":          {body("<html>"), Away, "it is not the JSON of Prometheus"},
		"empty":         {body(""), Away, "it is not the JSON of Prometheus"},
		"cut off":       {body(matrix()[:40]), Away, "it is not the JSON of Prometheus"},
		"an error":      {body(`{"status":"error","error":"x"}`), Away, `its status is "error"`},
		"a vector":      {body(`{"status":"success","data":{"resultType":"vector","result":[]}}`), Away, `its result is a "vector"`},
		"many series":   {body(matrix(strings.Repeat(`{},`, maxSeries) + `{}`)), Away, "it has 17 series"},
		"no label":      {body(matrix(`{"metric":{}}`)), Away, "other labels"},
		"more labels":   {body(matrix(`{"metric":{"outcome":"allowed","a":"b"}}`)), Away, "other labels"},
		"twice":         {body(matrix(`{"metric":{"outcome":"allowed"}}`, `{"metric":{"outcome":"allowed"}}`)), Away, `two series are of "allowed"`},
		"outcome":       {answering(map[string]string{"requests_total": matrix(fmt.Sprintf(`{"metric":{"outcome":"eaten"},"values":[[%d,"1"]]}`, at)), "quantile": matrix()}), Away, `have the outcome "eaten"`},
		"a number":      {allowed(fmt.Sprintf(`[%d,1]`, at)), Away, "it is not the JSON of Prometheus"},
		"null":          {allowed(fmt.Sprintf(`[%d,null]`, at)), Away, "it is not the JSON of Prometheus"},
		"no value":      {allowed(fmt.Sprintf(`[%d]`, at)), Away, "it is not the JSON of Prometheus"},
		"words":         {allowed(fmt.Sprintf(`[%d,"many"]`, at)), Away, "it is not the JSON of Prometheus"},
		"not a number":  {allowed(fmt.Sprintf(`[%d,"NaN"]`, at)), Away, "NaN requests per second"},
		"infinite":      {allowed(fmt.Sprintf(`[%d,"+Inf"]`, at)), Away, "+Inf requests per second"},
		"negative":      {allowed(fmt.Sprintf(`[%d,"-1"]`, at)), Away, "-1 requests per second"},
		"between steps": {allowed(fmt.Sprintf(`[%d.5,"1"]`, at)), Away, "an instant that was not asked for"},
		"too late":      {allowed(fmt.Sprintf(`[%d,"1"]`, at+360)), Away, "an instant that was not asked for"},
		"too early":     {allowed(`[-1e300,"1"]`), Away, "an instant that was not asked for"},
		"backwards":     {allowed(fmt.Sprintf(`[%d,"1"],[%d,"1"]`, at, at-360)), Away, "not in the order"},
		"again":         {allowed(fmt.Sprintf(`[%d,"1"],[%d,"1"]`, at, at)), Away, "not in the order"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader(t, tt.handler, func(o *Options) { o.Token = func() (string, error) { return "secret", nil } })
			line, err := r.Read(t.Context(), Question{From: now.Add(-time.Hour), To: now, Most: 10})
			held(t, err, tt.kind, tt.want)
			if len(line.Points) > 0 {
				t.Errorf("%+v", line)
			}
		})
	}
}

func held(t *testing.T, err error, kind Kind, want string) {
	t.Helper()
	var got *Trouble
	if !errors.As(err, &got) || got.Kind != kind || !strings.Contains(got.Error(), want) || strings.Contains(got.Error(), "secret") {
		t.Errorf("%v, want %q", err, want)
	}
}

// A Prometheus that is gone, a token that cannot be read and a turn that does not come are told apart.
func TestNobodyToAsk(t *testing.T) {
	q := Question{From: now.Add(-time.Hour), To: now, Most: 10}
	gone := reader(t, nil, func(o *Options) {
		o.URL = &url.URL{Scheme: "http", Host: "127.0.0.1:0", User: url.UserPassword("u", "secret")}
	})
	_, err := gone.Read(t.Context(), q)
	held(t, err, Away, "Prometheus does not answer: ")
	held(t, err, Away, "hint: is it running")

	tokenless := reader(t, nil, func(o *Options) { o.Token = func() (string, error) { return "", errors.New("no file") } })
	_, err = tokenless.Read(t.Context(), q)
	held(t, err, Away, "the token for Prometheus: no file; hint: --prometheus-token-file")

	for range maxAtOnce {
		gone.turns <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = gone.Read(ctx, q)
	held(t, err, Busy, "being asked by others")

	silent := reader(t, func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // who has not read the body does not see the end of the connection
		<-r.Context().Done()
	})
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(50*time.Millisecond))
	defer cancel()
	_, err = silent.Read(ctx, q)
	held(t, err, Away, "has not answered within 20s; hint: ask for less")
}

// Prometheus is asked by two readings at one time at most: a third one has its turn when one of them is over.
func TestTurns(t *testing.T) {
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	r := reader(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-answer
		_, _ = w.Write([]byte(matrix()))
	})
	q := Question{From: now.Add(-time.Hour), To: now, Most: 10}
	var reading sync.WaitGroup
	for range maxAtOnce {
		reading.Go(func() { _, _ = r.Read(t.Context(), q) })
		<-asked
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := r.Read(ctx, q)
	held(t, err, Busy, "being asked by others")
	close(answer)
	reading.Wait()
	_, err = r.Read(t.Context(), q)
	held(t, err, Unknown, "does it scrape")
}

// The parser takes what Prometheus sends, and whatever else comes, without a sample outside of the steps.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		matrix(), matrix(`{"metric":{"outcome":"allowed"},"values":[[0,"1"],[60,"NaN"]]}`), `{"status":"error"}`, `null`, `[]`,
		matrix(`{"metric":{"outcome":"a"},"values":[[1e999,"1"]]}`), matrix(`{"values":[[null,null]]}`),
	} {
		f.Add([]byte(text))
	}
	at := asked{first: 0, step: 60, count: 10}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, label := range []string{"outcome", ""} {
			list, err := parse(body, label, at)
			if err != nil {
				continue
			}
			for _, s := range list {
				for i := range s.values {
					if i < 0 || i >= at.count {
						t.Errorf("a value at step %d", i)
					}
				}
			}
		}
	})
}
