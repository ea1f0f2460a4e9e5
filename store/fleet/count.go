package fleet

import "time"

// count is a number of nodes that rises at once and falls late.
type count struct {
	live int
	// patience is for how long fewer must be said before they are believed.
	patience time.Duration
	// fewer is the most that was said since the instant since, all of it less
	// than live; 0 if the last answer was not less.
	fewer int
	since time.Time
}

// said notes that n nodes were said to live at now; less than one counts as one,
// for somebody has asked.
func (c *count) said(now time.Time, n int) {
	n = max(n, 1)
	if n >= c.live {
		c.live, c.fewer = n, 0
		return
	}
	if c.fewer == 0 {
		c.since = now
	}
	c.fewer = max(c.fewer, n)
	if now.Sub(c.since) >= c.patience {
		c.live, c.fewer = c.fewer, 0
	}
}

// missed notes that nothing was said.
func (c *count) missed() { c.fewer = 0 }
