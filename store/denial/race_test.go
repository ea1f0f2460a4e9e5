//go:build race

package denial

import "github.com/headgate/headgate/internal/racetest"

const raceEnabled = true

func init() { racetest.DrawLess() }
