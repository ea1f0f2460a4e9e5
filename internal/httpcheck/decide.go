package httpcheck

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/repeat"
)

// decide asks for what c has read. Reports do not end with ctx: who frees a slot, or gives hits
// back, may close the connection before the answer has come.
func (h *handler) decide(ctx context.Context, c *call, responses []headgate.Response) error {
	if onlyReports(c.decoder.requests) {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, end := h.options.Turns.Begin(ctx)
	defer end()
	err := h.ask(ctx, c, responses)
	if err == nil {
		err = httpanswer.Heard(ctx, responses)
	}
	return err
}

// onlyReports reports whether no request asks whether something may pass.
func onlyReports(requests []headgate.Request) bool {
	for i := range requests {
		for j := range requests[i].Descriptors {
			if !requests[i].Descriptors[j].Op.IsReport() {
				return false
			}
		}
	}
	return true
}

func (h *handler) ask(ctx context.Context, c *call, responses []headgate.Response) error {
	d := &c.decoder
	if !d.named {
		return c.checker.Check(ctx, d.requests, responses)
	}
	repeater, ok := c.checker.(Repeater)
	if !ok {
		return repeat.ErrNoStore
	}
	return repeater.CheckOnce(ctx, d.requests, d.ids, responses)
}
