//go:build race

package accuracy_test

import "github.com/headgate/headgate/internal/racetest"

func init() { racetest.DrawLess() }
