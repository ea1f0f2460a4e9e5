package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"

	"github.com/headgate/headgate/internal/httpanswer"
)

// outcome is what became of a request, as far as it is counted.
type outcome uint8

const (
	notForwarded outcome = iota
	tooLarge
	badBody
	unreachable
	timedOut
	gone     // the client, before an answer began
	begun    // an answer
	broken   // an answer, by the backend
	left     // an answer, by the client
	outcomes // their number

	// faults are those that the proxy answers itself: the first ones.
	faults = gone
)

// faultTexts are what a client is told. No text of the client, of the backend or of an error
// is in them.
var faultTexts = [faults]httpanswer.Fault{
	notForwarded: {Status: http.StatusBadRequest, Code: "BAD_REQUEST", Message: "Requests of this form are not forwarded."},
	tooLarge:     {Status: http.StatusRequestEntityTooLarge, Code: "BODY_TOO_LARGE", Message: "The body of the request is too large."},
	badBody:      {Status: http.StatusBadRequest, Code: "BAD_REQUEST", Message: "The body of the request is malformed."},
	unreachable:  {Status: http.StatusBadGateway, Code: "BAD_GATEWAY", Message: "The service behind this proxy cannot be reached."},
	timedOut:     {Status: http.StatusGatewayTimeout, Code: "GATEWAY_TIMEOUT", Message: "The service behind this proxy took too long to answer."},
}

// faultBodies are the bodies of faults in one shape.
type faultBodies struct {
	media  string
	bodies [faults][]byte
}

func newFaultBodies(shape httpanswer.Body) faultBodies {
	f := faultBodies{media: httpanswer.MediaType(shape)}
	for i := range faultTexts {
		f.bodies[i] = faultTexts[i].AppendBody(nil, shape)
	}
	return f
}

// fault answers a request in place of the backend.
func (p *Proxy) fault(w http.ResponseWriter, r *http.Request, o outcome) {
	p.counts[o].Add(1)
	if b := bodyOf(r.Context()); b != nil {
		b.answered(faultTexts[o].Status)
	}
	h := w.Header()
	h.Set("Content-Type", p.faults.media)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(faultTexts[o].Status)
	if r.Method != http.MethodHead {
		// That the client may be gone is nobody's error.
		_, _ = w.Write(p.faults.bodies[o])
	}
}

// failed is told why the backend did not answer.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	o := causeOf(r.Context(), err)
	if o == gone {
		// Nobody reads it; the status is for what counts them.
		p.counts[gone].Add(1)
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if p.options.OnTrouble != nil && (o == unreachable || o == timedOut) {
		p.options.OnTrouble(err)
	}
	p.fault(w, r, o)
}

// causeOf tells whose fault err is.
func causeOf(ctx context.Context, err error) outcome {
	b := bodyOf(ctx)
	var beyond *http.MaxBytesError
	var timeout net.Error
	switch {
	case errors.As(err, &beyond):
		return tooLarge
	case ctx.Err() != nil:
		return gone
	case b != nil && b.failed.Load():
		return badBody
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	}
	return unreachable
}
