package adminapi

import (
	"context"
	"net/http"
	"time"
)

const (
	// maxFollowers bounds those who wait for snapshots, or fetch files of accounts, at once.
	maxFollowers = 2000
	// pollTime is the longest answer to who waits for a snapshot; fetchTime that of a file.
	pollTime, fetchTime = 2 * time.Minute, 30 * time.Minute
)

// Snapshots gives what the database says to processes without one.
type Snapshots interface {
	// ServeNews answers what has changed, ServeBase with the file of accounts whose SHA-256
	// is sum.
	ServeNews(w http.ResponseWriter, r *http.Request)
	ServeBase(w http.ResponseWriter, r *http.Request, sum string)
}

// snapshots are what processes without a database follow.
type snapshots struct {
	*Options
	followers turns
}

func (s snapshots) routes() []route {
	texts := schema{"type": "string"}
	return []route{
		{
			method: http.MethodGet, path: "snapshot", scope: Read, local: true, serve: s.news, id: "getSnapshot", summary: "What the database has said since then",
			about: "For processes that decide without credentials of the database. The answer comes as soon as something has changed, and is signed (Headgate-Signature). " +
				"Its format is that of this version of Headgate; follow it by --snapshot-keys.",
			query: []parameter{
				{"version", "Up to which version changes are known; 0 is none.", schema{"type": "integer", "minimum": 0}},
				{"digest", "The digest of the history up to it.", texts},
				{"settings", "The digest of the rules, tiers and switches that are known.", texts},
				{"nonce", "A text that is signed with the answer, 64 bytes at most.", texts},
				{"wait", "How many seconds to wait for a change, 30 at most.", schema{"type": "integer", "minimum": 0, "maximum": 30}},
			},
			answers: []reply{text(linesType, "A line of JSON, then the accounts, documents and rows that have changed, one to a line.").tagged(), {status: http.StatusNotModified, about: "Nothing has changed."}, errorReply(http.StatusNotFound, "This process publishes nothing.")},
		},
		{
			method: http.MethodGet, path: "snapshot/accounts/{sha256}", scope: Read, local: true, serve: s.file, id: "getSnapshotAccounts", summary: "A file of all accounts",
			answers: []reply{text("application/octet-stream", "The file.").tagged(), errorReply(http.StatusNotFound, "There is no such file any more.")},
		},
	}
}

var errNoSnapshots = fail(http.StatusNotFound, "this process publishes no snapshots; hint: --snapshot-sign-key")

// news answers who waits for changes.
func (s snapshots) news(c *call) (*answer, error) {
	return s.streaming(c, pollTime, func(w http.ResponseWriter, r *http.Request) { s.Snapshots.ServeNews(w, r) })
}

// file answers with a file of accounts.
func (s snapshots) file(c *call) (*answer, error) {
	return s.streaming(c, fetchTime, func(w http.ResponseWriter, r *http.Request) { s.Snapshots.ServeBase(w, r, c.param("sha256")) })
}

// streaming is an answer that lasts for a time, and ends when the process begins to.
func (s snapshots) streaming(c *call, most time.Duration, serve http.HandlerFunc) (*answer, error) {
	if s.Snapshots == nil {
		return nil, errNoSnapshots
	}
	return &answer{stream: func(w http.ResponseWriter) error {
		select {
		case s.followers <- struct{}{}:
			defer func() { <-s.followers }()
		default:
			return later(retryAfter, "%d others follow already", maxFollowers)
		}
		takeTime(w, most)
		ctx, cancel := context.WithCancel(c.request.Context())
		defer cancel()
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-s.Draining: // nil without one: never
				cancel()
			case <-ended:
			}
		}()
		serve(w, c.request.WithContext(ctx))
		return nil
	}}, nil
}
