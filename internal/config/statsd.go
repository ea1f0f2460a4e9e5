package config

import (
	"errors"
	"time"
)

// Statsd are the settings of a statsd server that gets the statistics of envoyproxy/ratelimit.
type Statsd struct {
	// Statsd is the server; the zero value is none.
	Statsd StoreURL `group:"watch" name:"statsd" placeholder:"URL" help:"Server that the statistics of envoyproxy/ratelimit are sent to, by its names for statsd: udp://localhost:8125 or tcp://localhost:8125. Default: off."`
	// StatsdInterval is the time between two messages. The default value is 10s; from 1s to
	// 10m.
	StatsdInterval time.Duration `group:"watch" name:"statsd-interval" default:"10s" help:"Time between two messages to --statsd."`
	// StatsdTags are tags that all lines carry: name:value, with commas between.
	StatsdTags string `group:"watch" name:"statsd-tags" placeholder:"NAME:VALUE,..." help:"Tags of all lines that --statsd gets. Default: none."`
	// StatsdFormat says how tags are written.
	StatsdFormat string `group:"watch" name:"statsd-format" enum:"statsd,dogstatsd" default:"statsd" help:"How --statsd gets tags: as parts of names (statsd), or as Datadog's agent takes them (dogstatsd). Default ${default}."`
}

const maxStatsdInterval = 10 * time.Minute

// Sends reports whether there is a server.
func (s *Statsd) Sends() bool { return s.Statsd != (StoreURL{}) }

func (s *Statsd) validate() error {
	if !s.Sends() {
		return unused("statsd", "nothing is sent", given{"statsd-tags", s.StatsdTags != ""},
			given{"statsd-format", s.StatsdFormat != "" && s.StatsdFormat != defaultOf[Statsd]("StatsdFormat")})
	}
	return errors.Join(s.Statsd.checkScheme("statsd", "tcp", "udp"), between("statsd-interval", s.StatsdInterval, time.Second, maxStatsdInterval))
}
