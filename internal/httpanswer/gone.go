package httpanswer

import (
	"context"
	"errors"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
)

// ErrGone is for who half-closes the connection before there is an answer.
var ErrGone = errors.New("the caller has gone, or has said that no more will come, before the store had answered; hint: leave the connection open in both directions until the answer has come")

// Heard returns ErrGone where ctx, that of a request, has ended and the store has not decided all of
// its responses. net/http cannot tell who has gone from who has only said that no more will come, and
// for who has gone nothing is to be charged. But nobody is to be told the failure mode's answer for
// that, because the store may be well.
func Heard(ctx context.Context, responses []headgate.Response) error {
	if ctx.Err() == nil {
		return nil
	}
	for i := range responses {
		if responses[i].Degraded() != store.NoReason {
			return ErrGone
		}
	}
	return nil
}
