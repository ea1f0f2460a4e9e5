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
	"github.com/headgate/headgate/rules"
)

// pushbackKey is the trailer by which a server tells the retry policy of a
// client how long to wait, in milliseconds; a negative number means not at all.
const pushbackKey = "grpc-retry-pushback-ms"

// maxViolations bounds the limits that one denial lists, so that its status
// stays within the header lists that proxies take (8 KiB is common).
const maxViolations = 16

// errorDomain is the domain of the reasons in google.rpc.ErrorInfo.
const errorDomain = "headgate"

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
	code := codes.ResourceExhausted
	if v := s.Verdict; v == nil || v.Guessed() {
		code = codes.Unavailable
	}
	pushback := "-1"
	st := status.New(code, statusText(s.Sentence()))
	if detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: s.Code(), Domain: errorDomain}); err == nil {
		st = detailed
	}
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
		failure.Violations = append(failure.Violations, violationOf(v))
	}
	return failure
}

// violationOf describes a limit that denies. What leads to a ban, and how much time
// in flight is too much, is not told.
func violationOf(v *headgate.Verdict) *errdetails.QuotaFailure_Violation {
	name := httpanswer.NameOfLimit(v)
	violation := &errdetails.QuotaFailure_Violation{Subject: name, QuotaId: name}
	most := "at most " + strconv.FormatInt(v.Decision.Limit, 10)
	switch v.Role {
	case rules.Main, rules.Candidate, rules.Secondary:
		violation.Description, violation.QuotaValue = most+" hits", v.Decision.Limit
	case rules.InFlight:
		violation.Description, violation.QuotaValue = most+" calls in flight", v.Decision.Limit
	default:
		violation.Description = v.Role.String()
	}
	if v.Rule != nil {
		violation.QuotaMetric = v.Rule.ID
	}
	return violation
}

// statusText makes the message of a status of a sentence: no capital, no full stop.
func statusText(sentence string) string {
	return strings.ToLower(sentence[:1]) + strings.TrimSuffix(sentence[1:], ".")
}

// fields are the header fields of an answer as metadata; nil when none are sent.
func (g *guard) fields(resp *headgate.Response, s *httpanswer.Summary) metadata.MD {
	if g.options.OmitFields {
		return nil
	}
	fields := g.encoder.AppendFields(nil, nil, resp, s, g.options.Now())
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
