package envoyenv

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxQuoted bounds how much of a value an error quotes.
const maxQuoted = 40

// Environment is what the variables of envoyproxy/ratelimit mean to Headgate.
type Environment struct {
	// Settings are values of settings by the names of their flags, such as
	// "grpc-addr". What they leave out keeps Headgate's default.
	Settings map[string]string
	// Notes are sentences about variables that were given and have no effect, or
	// another one than there, each with the name of the variable in front. They hold no
	// values that may be secret.
	Notes []string

	// from are the variables that were given by which a setting is as it is, by its flag.
	from map[string][]string
	// switches are the variables that turn flags on which are off, by the flag.
	switches map[string]string
}

// Variables returns those that were given by which a setting is as it is; none where it
// follows from what was not given.
func (e Environment) Variables(flag string) []string { return e.from[flag] }

var flagName = regexp.MustCompile(`--[a-z][a-z-]*`)

// Explain adds to an error about flags by which variables they are as they are. Of a flag that
// is off it says what turns it on.
func (e Environment) Explain(err error) error {
	if err == nil {
		return nil
	}
	told := map[string]bool{}
	for _, flag := range flagName.FindAllString(err.Error(), -1) {
		from := strings.Join(e.from[flag[2:]], " and ")
		if from == "" && e.switches[flag[2:]] != "" {
			from = e.switches[flag[2:]] + "=true"
		}
		if from != "" && !told[flag] {
			told[flag] = true
			err = fmt.Errorf("%w; hint: here %s stands for %s", err, flag, from)
		}
	}
	return err
}

// Read reads the environment that lookup knows, as os.LookupEnv does. A variable that is
// empty counts as one that is not there. Its error joins one for each variable that
// cannot be used, each with its name and a hint; then there is no Environment.
func Read(lookup func(name string) (string, bool)) (Environment, error) {
	r := &reader{lookup: lookup, values: map[string]string{}, settings: map[string]string{}, from: map[string][]string{}, switches: map[string]string{}}
	for i := range variables {
		r.read(&variables[i])
	}
	if r.problems == nil {
		r.mapAll()
	}
	if err := errors.Join(r.problems...); err != nil {
		return Environment{}, err
	}
	return Environment{Settings: r.settings, Notes: r.notes, from: r.from, switches: r.switches}, nil
}

// reader reads one environment.
type reader struct {
	lookup   func(string) (string, bool)
	values   map[string]string // what was given, by name
	settings map[string]string
	from     map[string][]string
	switches map[string]string
	notes    []string
	problems []error
}

// read takes the value of v, if it is given and has its type.
func (r *reader) read(v *variable) {
	value, ok := r.lookup(v.name)
	if !ok || value == "" {
		return
	}
	if v.kind == listen && isServiceLink(value) {
		r.note(v.name, "ignored: its value is the URL by which Kubernetes links a Service of that name; hint: enableServiceLinks: false")
		return
	}
	if err := v.check(value); err != nil {
		r.problems = append(r.problems, fmt.Errorf("%s: %w", v.name, err))
		return
	}
	r.values[v.name] = value
	if v.without != "" && value != v.fallback {
		r.note(v.name, "has no effect: "+v.without)
	}
}

// isServiceLink reports whether a value is one that Kubernetes gives to X_PORT for a
// Service called x.
func isServiceLink(value string) bool {
	return strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://") || strings.HasPrefix(value, "sctp://")
}

// check reports whether value has the type of v.
func (v *variable) check(value string) (err error) {
	hint := ""
	switch v.kind {
	case boolean:
		_, err = strconv.ParseBool(value)
		hint = "true or false"
	case number:
		_, err = strconv.ParseInt(value, 0, 64)
		hint = "a whole number"
	case fraction:
		_, err = strconv.ParseFloat(value, 64)
		hint = "a number, such as 0.8"
	case duration:
		_, err = time.ParseDuration(value)
		hint = "a time with its unit, such as 10s"
	case listen:
		_, err = strconv.ParseUint(value, 10, 16)
		hint = "a port, from 0 to 65535"
	case pairs:
		for pair := range strings.SplitSeq(value, ",") {
			if !strings.Contains(pair, ":") {
				err = errors.New("no pair")
			}
		}
		hint = "name:value,name:value"
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%.*q is not what it takes; hint: %s", maxQuoted, value, hint)
}

// get returns the value of a variable, or its default.
func (r *reader) get(name string) string {
	if value, ok := r.values[name]; ok {
		return value
	}
	return variableOf(name).fallback
}

// is returns the value of a boolean.
func (r *reader) is(name string) bool {
	value, _ := strconv.ParseBool(r.get(name)) // read has checked it
	return value
}

// set sets a flag by variables, some of which may not be given.
func (r *reader) set(flag, value string, from ...string) {
	r.settings[flag] = value
	r.from[flag] = slices.DeleteFunc(slices.Clone(from), func(name string) bool {
		value, _ := r.lookup(name)
		return value == ""
	})
}

func (r *reader) note(name, sentence string) { r.notes = append(r.notes, name+": "+sentence) }

// refuse ends the start because of a variable. It does not quote the value.
func (r *reader) refuse(name, problem, hint string) {
	r.problems = append(r.problems, fmt.Errorf("%s: %s; hint: %s", name, problem, hint))
}

// choose returns which of the choices a value is, without regard to case, and refuses
// others.
func (r *reader) choose(name string, choices ...string) string {
	value := r.get(name)
	for _, choice := range choices {
		if strings.EqualFold(value, choice) {
			return choice
		}
	}
	r.refuse(name, fmt.Sprintf("%.*q is no choice", maxQuoted, value), strings.Join(choices, ", "))
	return choices[0]
}
