//go:build race

package regional_test

import "github.com/headgate/headgate/internal/racetest"

const raceEnabled = true

func init() { racetest.DrawLess() }
