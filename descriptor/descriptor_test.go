package descriptor

import (
	"errors"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	long := strings.Repeat("v", MaxEntryLength+1)
	for _, test := range []struct {
		name    string
		entries []Entry
		want    error
	}{
		{"no entries", nil, nil},
		{"empty value", []Entry{{"key", ""}}, nil},
		{"any bytes", []Entry{{"\x00\xff", "\x00\xff{}"}}, nil},
		{"longest value", []Entry{{"key", long[1:]}}, nil},
		{"most entries", manyEntries(MaxEntries), nil},
		{"empty key", []Entry{{"a", "b"}, {"", "b"}}, ErrEmptyKey},
		{"value too long", []Entry{{"key", long}}, ErrEntryTooLong},
		{"key too long", []Entry{{long, ""}}, ErrEntryTooLong},
		{"too many entries", manyEntries(MaxEntries + 1), ErrTooManyEntries},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := Validate(test.entries); !errors.Is(err, test.want) {
				t.Errorf("Validate = %v, want %v", err, test.want)
			}
		})
	}
}

func manyEntries(n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{"key", "value"}
	}
	return entries
}

func TestValueOf(t *testing.T) {
	entries := []Entry{{Key: "user"}, {Key: "plan", Value: "free"}, {Key: "plan", Value: "paid"}}
	for key, want := range map[string]string{"user": "", "plan": "free", "region": ""} {
		if got := ValueOf(entries, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}
