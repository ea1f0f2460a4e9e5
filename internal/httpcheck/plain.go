package httpcheck

import (
	"net/http"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/store"
)

// plain serves /ratelimit/check: one key by a limit that the caller names. A decision has
// always status 200.
func (h *handler) plain(w http.ResponseWriter, r *http.Request) {
	c, ok := h.read(w, r, h.options.Admit)
	if !ok {
		return
	}
	defer h.release(c)
	h.prepare(&c.decoder, r, store.Hit)
	if err := c.decoder.decodePlain(c.body.String()); err != nil {
		writeProblem(w, malformed(err))
		return
	}
	resp := c.response()
	if err := h.decide(r.Context(), c, c.responses[:1]); err != nil {
		writeProblem(w, refused(err, false))
		return
	}
	s := h.encoder.Summarize(resp)
	h.encoder.WriteFields(&c.fields, &c.decoder.requests[0], resp, &s, h.options.Now())
	c.fields.Set(w.Header())
	delete(w.Header(), "Retry-After") // of an answer that is 200
	c.out = append(appendPlain(c.out, resp, &s), '\n')
	write(w, http.StatusOK, mediaJSON, c.out)
}

// decodePlain reads a whole body: a check with a key and nothing else.
func (d *decoder) decodePlain(text string) *strictjson.Error {
	d.Scanner = strictjson.NewScanner(text)
	c := check{}
	if err := d.Object(func(name string) *strictjson.Error {
		switch name {
		case "key", "limit", "window_ms", "hits", "weight", "algorithm", "burst", "id", "client_ip", "user_agent":
			return d.member(&c, name)
		}
		return &strictjson.Error{What: "unknown member of a plain check", Hint: "key, limit, window_ms, hits, algorithm, burst, id, client_ip, user_agent; /v1/check has more"}
	}); err != nil {
		return err
	}
	if err := d.End(); err != nil {
		return err
	}
	return d.finishKey(&c)
}

// appendPlain appends the JSON object of a plain check. As in other answers, what is not
// known is left out: remaining and times of reset where nothing was counted, retry_after_s where
// waiting does not help.
func appendPlain(dst []byte, resp *headgate.Response, s *httpanswer.Summary) []byte {
	dst = strconv.AppendBool(append(dst, `{"allowed":`...), resp.Allowed)
	if s.Counted {
		dst = appendLeft(dst, s)
	}
	if !s.Never() {
		dst = appendInt(dst, `,"retry_after_s":`, s.RetryAfterSeconds())
	}
	if s.Delay > 0 {
		dst = appendInt(dst, `,"delay_ms":`, ceilMillis(s.Delay))
	}
	dst = strconv.AppendBool(append(dst, `,"matched":`...), len(resp.Verdicts) > 0)
	dst = appendText(dst, `,"degraded":`, string(resp.Degraded()))
	return append(dst, '}')
}
