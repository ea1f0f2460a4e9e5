package rulesource

import (
	"fmt"
	"strings"
)

// maxBriefLines bounds how many of the errors of one reload are told; who has
// more sees them with `headgate rules validate`.
const maxBriefLines = 5

// Brief returns the first errors of err as one line.
func Brief(err error) string {
	lines := strings.Split(err.Error(), "\n")
	if len(lines) > maxBriefLines {
		lines = append(lines[:maxBriefLines], fmt.Sprintf("and %d more errors; hint: headgate rules validate shows them all", len(lines)-maxBriefLines))
	}
	return strings.Join(lines, " | ")
}
