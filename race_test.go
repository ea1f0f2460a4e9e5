//go:build race

package headgate_test

import "github.com/headgate/headgate/internal/racetest"

func init() { racetest.DrawLess() }
