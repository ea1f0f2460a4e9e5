package config

import (
	"fmt"
	"reflect"
	"strings"
)

// given is a setting, and whether somebody has set it.
type given struct {
	name string
	is   bool
}

// unused refuses settings that do nothing without the setting called missing: whoever sets
// them expects more than a process that starts and leaves them alone. because says what
// there is not.
func unused(missing, because string, settings ...given) error {
	var names []string
	for _, s := range settings {
		if s.is {
			names = append(names, "--"+s.name)
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%s: nothing comes of it without --%s, because %s; hint: --%s, or leave it out", strings.Join(names, ", "), missing, because, missing)
}

// refuse returns a problem, where it is one.
func refuse(is bool, format string, args ...any) error {
	if !is {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// alone refuses a certificate without its key, or a key without its certificate, of the settings whose names begin so.
func alone(begin, cert, key string) error {
	return refuse((cert == "") != (key == ""), "--%[1]s-cert, --%[1]s-key: one without the other", begin)
}

// words returns what stands in a list with commas between; "" has none.
func words(list string) []string {
	if list == "" {
		return nil
	}
	all := strings.Split(list, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// defaultOf returns the default of a setting of T, by the name of its field.
func defaultOf[T any](field string) string {
	f, _ := reflect.TypeFor[T]().FieldByName(field)
	return f.Tag.Get("default")
}
