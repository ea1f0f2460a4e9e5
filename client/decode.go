package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
)

// problem is how the server refuses a call.
type problem struct {
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

// decodeAnswer turns an answer into responses, or into the error of a malformed
// call. A reason says that this is no answer of a Headgate.
func decodeAnswer(resp *http.Response, body []byte, requests []headgate.Request, responses []headgate.Response) (store.Reason, error) {
	switch resp.StatusCode {
	case http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		return decodeRefusal(resp, body)
	}
	if len(requests) == 1 {
		var d wireDecision
		if json.Unmarshal(body, &d) != nil || d.Allowed == nil {
			return foreign(resp.StatusCode), nil
		}
		told := Read(resp.Header, time.Time{})
		d.Status = resp.StatusCode
		d.fill(&requests[0], &responses[0], &told)
		return store.NoReason, nil
	}
	var batch struct {
		Results []wireDecision `json:"results"`
	}
	if json.Unmarshal(body, &batch) != nil || len(batch.Results) != len(requests) {
		return foreign(resp.StatusCode), nil
	}
	for i := range batch.Results {
		if batch.Results[i].Allowed == nil {
			return store.Misconfigured, nil
		}
	}
	for i := range batch.Results {
		batch.Results[i].fill(&requests[i], &responses[i], &Limits{})
	}
	return store.NoReason, nil
}

// decodeRefusal turns an answer that decides nothing into the error of a malformed
// call, where a Headgate says so.
func decodeRefusal(resp *http.Response, body []byte) (store.Reason, error) {
	switch resp.StatusCode {
	case http.StatusConflict:
		reason, err := decodeProblem(resp, body)
		if err != nil {
			err = fmt.Errorf("%w: %w", repeat.ErrConflict, err)
		}
		return reason, err
	case http.StatusNotImplemented:
		reason, err := decodeProblem(resp, body)
		if err != nil {
			err = fmt.Errorf("remote check: %w", repeat.ErrNoStore)
		}
		return reason, err
	case http.StatusBadRequest, http.StatusForbidden, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return decodeProblem(resp, body)
	}
	return foreign(resp.StatusCode), nil
}

// foreign is the reason when something else than a Headgate answered.
func foreign(status int) store.Reason {
	if status >= http.StatusInternalServerError {
		return store.Unavailable
	}
	return store.Misconfigured
}

func decodeProblem(resp *http.Response, body []byte) (store.Reason, error) {
	media := resp.Header.Get("Content-Type")
	var p problem
	if !strings.HasPrefix(media, "application/problem+json") || json.Unmarshal(body, &p) != nil || p.Detail == "" {
		return foreign(resp.StatusCode), nil
	}
	if p.Hint != "" {
		p.Detail += "; hint: " + p.Hint
	}
	return store.NoReason, fmt.Errorf("remote check: refused with status %d: %s", resp.StatusCode, p.Detail)
}
