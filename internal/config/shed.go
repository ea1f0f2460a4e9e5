package config

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/internal/ascii"
)

// Shedding are the settings of what protects the backend of `headgate proxy`
// when there are too many requests. Both shedders are off by default.
type Shedding struct {
	Shed bool `group:"shedding" help:"Shed requests with 503 when the backend backs up: an adaptive limit on what this process has in flight, by priority."`
	// ShedMaxInFlight and ShedMaxCritical bound what is in flight; the default
	// values are 1000, and 0, which is as ShedMaxInFlight.
	ShedMaxInFlight int     `group:"shedding" default:"1000" placeholder:"N" help:"Most requests in flight with --shed, besides critical ones, however fast the backend is. Default ${default}."`
	ShedMaxCritical int     `group:"shedding" default:"0" placeholder:"N" help:"Most critical requests (p0) in flight with --shed, counted apart; nothing else bounds them. Default: as --shed-max-in-flight."`
	FleetCapacity   float64 `group:"shedding" default:"0" placeholder:"RATE" help:"Requests per second that all headgate processes on one store may let pass together. Near it lower priorities are shed with 503, and a fifth of it is kept for critical ones. Default 0: off."`
	FleetName       string  `group:"shedding" default:"proxy" placeholder:"NAME" help:"Name of the fleet that --fleet-capacity is of, where one store serves several. Default ${default}."`
	PriorityHeader  string  `group:"shedding" default:"X-Priority" placeholder:"NAME" help:"Header by which a request asks for a priority, p0 (critical) to p3 (test). It can lower that of anybody, and raises it only from a trusted proxy. Empty for none. Default ${default}."`
	// PriorityPaths are texts as overload.ParsePathPriority reads them.
	PriorityPaths []string `group:"shedding" sep:"," placeholder:"PATH=PRIORITY" help:"Priority of a path, such as 'POST /v1/charges=p0', '/v1/orders/{id}=p1' or '/v1/reports/=p3' (with all below). May be repeated, or have commas between; the first that matches speaks, before the method and after a rule. Default: p1 for what changes something, p2 for what reads."`
}

// Bounds of what the shedders take; see overload.Options and
// fleetusage.Options.
const (
	maxShedInFlight = 1<<21 - 1
	maxCapacity     = 1e12
	maxFleetName    = 128
	maxHeaderName   = 256
)

// On reports whether there is anything to shed by.
func (s *Shedding) On() bool { return s.Shed || s.FleetCapacity > 0 }

func (s *Shedding) validate() error {
	return errors.Join(
		within("shed-max-in-flight", s.ShedMaxInFlight, 1, maxShedInFlight),
		within("shed-max-critical", s.ShedMaxCritical, 0, maxShedInFlight),
		s.validateFleet(),
		s.validatePriorities(),
	)
}

func (s *Shedding) validateFleet() error {
	switch {
	case !(s.FleetCapacity >= 0 && s.FleetCapacity <= maxCapacity):
		return fmt.Errorf("--fleet-capacity: %v is out of range; hint: requests per second of the whole fleet, 0 for off", s.FleetCapacity)
	case len(s.FleetName) > maxFleetName || !ascii.IsVisible(s.FleetName):
		return fmt.Errorf("--fleet-name: %.40q is no name; hint: up to %d letters, digits and signs", s.FleetName, maxFleetName)
	}
	return nil
}

func (s *Shedding) validatePriorities() error {
	if len(s.PriorityHeader) > maxHeaderName {
		return fmt.Errorf("--priority-header: longer than %d bytes; hint: X-Priority", maxHeaderName)
	}
	if !s.On() && len(s.PriorityPaths) > 0 {
		return errors.New("--priority-paths: nothing is shed; hint: --shed, or --fleet-capacity RATE")
	}
	return nil
}
