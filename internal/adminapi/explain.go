package adminapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

const (
	// maxExplained bounds the body of what is explained, in bytes.
	maxExplained = 64 << 10
	// maxAttributes bounds the attributes of it, as /v1/check does.
	maxAttributes = 32
)

// explainBody is a request that is to be explained, as /v1/check takes it.
type explainBody struct {
	Domain      *string             `json:"domain"`
	Descriptors []explainDescriptor `json:"descriptors"`
	Attributes  map[string]string   `json:"attributes"`
}

// explainDescriptor is one of its descriptors: in entries, or as text.
type explainDescriptor struct {
	Entries []struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	} `json:"entries"`
	Descriptor *string `json:"descriptor"`
	// Hits is 1 where it is left out.
	Hits *int64 `json:"hits"`
}

// explain answers how a request would be decided.
func (c *call) explain() (*answer, error) {
	request, bad := parseExplained(c.body)
	if bad != nil {
		return nil, bad
	}
	if c.options.Watch.Explain == nil {
		return nil, errNotShown
	}
	ctx, cancel := context.WithTimeout(c.request.Context(), usageTimeout)
	defer cancel()
	done, bad := c.look(ctx)
	if bad != nil {
		return nil, bad
	}
	defer done()
	e, err := c.options.Watch.Explain(ctx, request)
	if err != nil {
		c.options.OnError(fmt.Errorf("explain a request: %w", err))
		return nil, fail(http.StatusServiceUnavailable, "it could not be asked what would be decided; the log of this process says why").with("Retry-After", strconv.Itoa(retryAfter))
	}
	return jsonAnswer(http.StatusOK, e)
}

// parseExplained reads a request and says all that is wrong with it.
func parseExplained(text []byte) (r headgate.Request, bad *problem) {
	if !utf8.Valid(text) {
		return r, badField(http.StatusBadRequest, wholeBody, "not UTF-8")
	}
	var body explainBody
	if bad := decodeBody(text, &body); bad != nil {
		return r, bad
	}
	var list []fieldError
	wrong := func(field, message, hint string) {
		list = append(list, fieldError{Field: field, Message: message, Hint: hint})
	}
	if body.Domain == nil || *body.Domain == "" {
		wrong("domain", "missing", "the domain of the rules that shall decide")
	} else {
		r.Domain = *body.Domain
	}
	if n := len(body.Descriptors); n == 0 || n > descriptor.MaxDescriptors {
		wrong("descriptors", fmt.Sprintf("%d of them", n), fmt.Sprintf("1 to %d", descriptor.MaxDescriptors))
	}
	if len(body.Attributes) > maxAttributes {
		wrong("attributes", fmt.Sprintf("more than %d", maxAttributes), "")
	}
	for i := range body.Descriptors[:min(len(body.Descriptors), descriptor.MaxDescriptors)] {
		d, problem := body.Descriptors[i].read()
		if problem != nil {
			problem.Field = fmt.Sprintf("descriptors[%d].%s", i, problem.Field)
			list = append(list, *problem)
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	for key, value := range body.Attributes {
		r.Attributes = append(r.Attributes, descriptor.Entry{Key: key, Value: value})
	}
	if len(list) > 0 {
		return r, badFields(http.StatusUnprocessableEntity, list)
	}
	return r, nil
}

// read returns d as the limiter takes it, or the field that is at fault.
func (d *explainDescriptor) read() (one headgate.Descriptor, bad *fieldError) {
	field := "entries"
	for _, e := range d.Entries {
		one.Entries = append(one.Entries, descriptor.Entry{Key: e.Key, Value: e.Value})
	}
	if d.Descriptor != nil {
		if d.Entries != nil {
			return one, &fieldError{Field: "descriptor", Message: "beside entries", Hint: "two ways to write the same; send one of them"}
		}
		var err error
		field = "descriptor"
		if one.Entries, err = descriptor.Parse(*d.Descriptor); err != nil {
			return one, hintedField(field, err)
		}
	}
	if err := descriptor.Validate(one.Entries); err != nil {
		return one, hintedField(field, err)
	}
	if one.Hits = 1; d.Hits != nil {
		one.Hits = *d.Hits
	}
	if one.Hits < 0 || one.Hits > limit.MaxQuota {
		return one, &fieldError{Field: "hits", Message: fmt.Sprintf("not a whole number from 0 to %d", int64(limit.MaxQuota))}
	}
	return one, nil
}

// hintedField is what is wrong with a field, by an error that holds what to do.
func hintedField(field string, err error) *fieldError {
	message, hint := hinted(err.Error())
	return &fieldError{Field: field, Message: message, Hint: hint}
}
