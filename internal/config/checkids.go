package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/ascii"
)

// CheckIDs are the settings of ids by which a check that is repeated is charged once.
type CheckIDs struct {
	CheckIDTime   time.Duration `group:"answers" name:"check-id-time" default:"1m" placeholder:"TIME" help:"How long the answer to a check that carries an id is remembered, so that a repeat of it gets the same answer and is charged nothing. Default ${default}."`
	CheckIDHeader string        `group:"gateways" name:"check-id-header" placeholder:"HEADER" help:"Header of sub-requests in which a gateway sends the id of a check. The gateway must set it itself, in place of what the client sent: a client that can choose it is charged once for many requests. Default: none."`
}

// Bounds of CheckIDTime.
const minCheckIDTime, maxCheckIDTime = time.Second, time.Hour

// spoken are header fields that say something else than an id.
var spoken = []string{"authorization", "cookie", "forwarded", "host", "traceparent", "user-agent", "x-forwarded-for", "x-headgate-token"}

func (c *CheckIDs) validate() error {
	return errors.Join(between("check-id-time", c.CheckIDTime, minCheckIDTime, maxCheckIDTime), c.validateHeader())
}

func (c *CheckIDs) validateHeader() error {
	switch name := c.CheckIDHeader; {
	case len(name) > maxHeaderName || name != "" && !ascii.IsToken(name):
		return fmt.Errorf("--check-id-header: %.40q is no name of a header; hint: such as Headgate-Check-Id", name)
	case slices.Contains(spoken, strings.ToLower(name)):
		return fmt.Errorf("--check-id-header: %s says something else; hint: such as Headgate-Check-Id", name)
	}
	return nil
}
