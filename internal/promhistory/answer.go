package promhistory

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// series is one line of an answer: the value of its label, and a value at some of the steps.
type series struct {
	label  string
	values map[int]float64 // by the number of the step
}

// asked are the instants of a question, in seconds since 1970: first, first+step, up to count of them.
type asked struct {
	first, step int64
	count       int
}

// maxSeries bounds the series of one answer: there are six outcomes.
const maxSeries = 16

// parse reads the answer to a question whose series have one label called label, or none for "". It
// refuses whatever has not been asked for.
func parse(body []byte, label string, at asked) ([]series, error) {
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Type   string `json:"resultType"`
			Result []struct {
				Metric map[string]string `json:"metric"`
				Values []sample          `json:"values"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, errors.New("it is not the JSON of Prometheus")
	}
	switch {
	case answer.Status != "success":
		return nil, fmt.Errorf("its status is %.40q", answer.Status)
	case answer.Data.Type != "matrix":
		return nil, fmt.Errorf("its result is a %.40q and no matrix", answer.Data.Type)
	case len(answer.Data.Result) > maxSeries:
		return nil, fmt.Errorf("it has %d series, more than %d", len(answer.Data.Result), maxSeries)
	}
	var list []series
	for _, r := range answer.Data.Result {
		s := series{label: r.Metric[label], values: make(map[int]float64, len(r.Values))}
		if _, labelled := r.Metric[label]; label == "" && len(r.Metric) > 0 || label != "" && (!labelled || len(r.Metric) > 1) {
			return nil, errors.New("a series has other labels than were asked for")
		}
		if slices.ContainsFunc(list, func(other series) bool { return other.label == s.label }) {
			return nil, fmt.Errorf("two series are of %.40q", s.label)
		}
		if err := s.take(r.Values, at); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// take adds samples, which are at steps of at, the earliest first.
func (s *series) take(samples []sample, at asked) error {
	last := -1
	for _, v := range samples {
		// Compared before anything is converted: any number may come.
		number := (v.at - float64(at.first)) / float64(at.step)
		if !(number >= 0 && number < float64(at.count)) || number != math.Trunc(number) {
			return errors.New("a sample is at an instant that was not asked for")
		}
		if int(number) <= last {
			return errors.New("samples are not in the order of their instants")
		}
		last = int(number)
		s.values[last] = v.value
	}
	return nil
}

// sample is a pair [instant in seconds, "value"].
type sample struct{ at, value float64 }

// UnmarshalJSON implements json.Unmarshaler.
func (s *sample) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return errors.New("no pair")
	}
	var at *float64
	var text *string
	if err := errors.Join(json.Unmarshal(pair[0], &at), json.Unmarshal(pair[1], &text)); err != nil {
		return err
	}
	if at == nil || text == nil {
		return errors.New("null")
	}
	value, err := strconv.ParseFloat(*text, 64)
	*s = sample{*at, value}
	return err
}
