//go:build race

package lease_test

import "github.com/headgate/headgate/internal/racetest"

const raceEnabled = true

func init() { racetest.DrawLess() }
