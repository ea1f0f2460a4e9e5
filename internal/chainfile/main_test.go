package chainfile_test

import (
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

func TestMain(m *testing.M) { testserver.RunTests(m) }
