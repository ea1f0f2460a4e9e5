//go:build race

package subbucket

import "github.com/headgate/headgate/internal/racetest"

const raceEnabled = true

func init() { racetest.DrawLess() }
