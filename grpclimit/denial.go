package grpclimit

import (
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/httpanswer"
)

// pushbackKey is the trailer by which a server tells the retry policy of a
// client how long to wait, in milliseconds; a negative number means not at all.
const pushbackKey = "grpc-retry-pushback-ms"

// maxViolations bounds the limits that one denial lists, so that its status
// stays within the header lists that proxies take (8 KiB is common).
const maxViolations = 16

// denial is a denied call as a status, and what travels beside it.
type denial struct {
	err      error
	trailers metadata.MD
}

// denialOf returns the denial of pass, or nil when it was allowed.
func (g *guard) denialOf(pass *admission.Pass) *denial {
	resp := pass.Response()
	if resp.Allowed {
		return nil
	}
	s := g.encoder.Summarize(resp)
	code, message := codes.ResourceExhausted, "rate limit exceeded"
	if v := s.Verdict; v == nil || v.Guessed() {
		code, message = codes.Unavailable, "the rate limit could not be checked"
	}
	pushback := "-1"
	st := status.New(code, message)
	if !s.Never() {
		retry := s.RetryAfter
		pushback = strconv.FormatInt(ceilMillis(retry), 10)
		// The error of WithDetails is that of the code OK.
		if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)}); err == nil {
			st = detailed
		}
	}
	if failure := quotaFailure(resp); code == codes.ResourceExhausted && len(failure.Violations) > 0 {
		if detailed, err := st.WithDetails(failure); err == nil {
			st = detailed
		}
	}
	trailers := g.fields(resp, &s)
	if trailers == nil {
		trailers = metadata.MD{}
	}
	trailers[pushbackKey] = []string{pushback}
	return &denial{st.Err(), trailers}
}

// quotaFailure lists the limits that deny. The subject is the name of the
// limit; the key of the caller is not told.
func quotaFailure(resp *headgate.Response) *errdetails.QuotaFailure {
	failure := &errdetails.QuotaFailure{}
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if !v.OverLimit() || v.Guessed() || len(failure.Violations) == maxViolations {
			continue
		}
		name := "default"
		switch {
		case v.Name != "":
			name = v.Name
		case v.Rule != nil:
			name = v.Rule.ID
		}
		violation := &errdetails.QuotaFailure_Violation{
			Subject:     name,
			Description: "at most " + strconv.FormatInt(v.Decision.Limit, 10) + " hits",
			QuotaId:     name,
			QuotaValue:  v.Decision.Limit,
		}
		if v.Rule != nil {
			violation.QuotaMetric = v.Rule.ID
		}
		failure.Violations = append(failure.Violations, violation)
	}
	return failure
}

// fields are the header fields of an answer as metadata; nil when none are sent.
func (g *guard) fields(resp *headgate.Response, s *httpanswer.Summary) metadata.MD {
	if g.options.OmitFields {
		return nil
	}
	fields := g.encoder.AppendFields(nil, resp, s, g.options.Now())
	md := make(metadata.MD, len(fields)+1)
	for _, f := range fields {
		if f.Name != "Cache-Control" {
			md[strings.ToLower(f.Name)] = []string{f.Value}
		}
	}
	return md
}

// ceilMillis rounds up to what fits the signed 32 bits of a pushback: 24 days.
func ceilMillis(d time.Duration) int64 {
	return min(int64((d-1)/time.Millisecond)+1, math.MaxInt32)
}
