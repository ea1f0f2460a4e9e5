package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// parseShedding reads args as a command would that has these settings alone.
func parseShedding(t *testing.T, args ...string) (*Shedding, error) {
	t.Helper()
	var command struct {
		Config   string
		Shedding `embed:""`
	}
	parser, err := kong.New(&command, kong.Name("test"), kong.DefaultEnvars(EnvPrefix), kong.Resolvers(&File{}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return &command.Shedding, err
}

func TestSheddingSettings(t *testing.T) {
	s, err := parseShedding(t)
	if err != nil || s.validate() != nil || s.On() {
		t.Fatalf("%+v, %v, %v; want the defaults to be fine, and off", s, err, s.validate())
	}
	if s.ShedMaxInFlight != 1000 || s.ShedMaxCritical != 0 || s.PriorityHeader != "X-Priority" || s.FleetName != "proxy" || s.PriorityPaths != nil {
		t.Errorf("defaults %+v", s)
	}
	for _, arg := range []string{"--shed", "--fleet-capacity=0.5"} {
		if s, err := parseShedding(t, arg); err != nil || !s.On() {
			t.Errorf("%s: %+v, %v; want shedding on", arg, s, err)
		}
	}
	want := "[POST /v1/charges=p0 /v1/reports/=p3]"
	repeated, err1 := parseShedding(t, "--shed", "--priority-paths=POST /v1/charges=p0", "--priority-paths=/v1/reports/=p3")
	listed, err2 := parseShedding(t, "--shed", "--priority-paths=POST /v1/charges=p0,/v1/reports/=p3")
	file := settingsFile(t, "shed: true\npriority-paths: POST /v1/charges=p0,/v1/reports/=p3\n")
	inFile, err3 := parseShedding(t, "--config", file)
	t.Setenv("HEADGATE_PRIORITY_PATHS", "POST /v1/charges=p0,/v1/reports/=p3")
	environment, err4 := parseShedding(t, "--shed")
	for i, s := range []*Shedding{repeated, listed, inFile, environment} {
		if got := fmt.Sprint(s.PriorityPaths); got != want || !s.On() || s.validate() != nil {
			t.Errorf("way %d: %s, want %s (%v)", i, got, want, errors.Join(err1, err2, err3, err4))
		}
	}
}

func TestBadSheddingSettings(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--shed-max-in-flight=0", "--shed-max-in-flight: 0 is out of range; hint:"},
		{"--shed-max-in-flight=2097152", "--shed-max-in-flight: 2097152 is out of range; hint:"},
		{"--shed-max-critical=-1", "--shed-max-critical: -1 is out of range; hint:"},
		{"--fleet-capacity=-1", "--fleet-capacity: -1 is out of range; hint:"},
		{"--fleet-capacity=NaN", "--fleet-capacity: NaN is out of range; hint:"},
		{"--fleet-capacity=+Inf", "--fleet-capacity: +Inf is out of range; hint:"},
		{"--fleet-name=a b", `--fleet-name: "a b" is no name; hint:`},
		{"--fleet-name=" + strings.Repeat("a", maxFleetName+1), "is no name; hint:"},
		{"--priority-header=" + strings.Repeat("a", maxHeaderName+1), "--priority-header: longer than"},
		{"--priority-paths=/v1=p0", "--priority-paths: nothing is shed; hint: --shed"},
	} {
		s, err := parseShedding(t, tt.args)
		if err == nil {
			err = s.validate()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60s: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}
