//go:build race

package overload

import "github.com/headgate/headgate/internal/racetest"

const raceEnabled = true

func init() { racetest.DrawLess() }
