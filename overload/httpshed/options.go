package httpshed

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/overload"
)

// Options configures a Middleware.
type Options struct {
	// Gate decides, and counts; required. Several fronts may share one.
	Gate *overload.Gate

	// Classifier gives requests their priority; nil has the defaults.
	Classifier *overload.Classifier
	// Header is the name of the header that carries a priority; "" is none. When
	// it is given several times the lowest priority counts.
	Header string
	// Trusted says that the header was set by one of ours, so that it may raise
	// the priority too; nil trusts nobody. It must look at the peer of the
	// connection, not at what the request says.
	Trusted func(*http.Request) bool
	// Rule returns the word of the rule that matches a request, such as p0 or
	// critical, "" for none; nil: there are no rules.
	Rule func(*http.Request) string

	// Waited returns for how long a request has waited before it came here, 0 if
	// that is not known; nil knows nothing. A front may tell it by a header, which
	// then must be trusted.
	Waited func(*http.Request) time.Duration
	// Now is the clock; nil means time.Now. It should be monotonic.
	Now func() time.Time
}

// CheckHeader says why name cannot be that of a header field. "" is none, and
// fine.
func CheckHeader(name string) error {
	if name != "" && !ascii.IsToken(name) {
		return fmt.Errorf("header %.80q is no field name; it has letters, digits and hyphens", name)
	}
	return nil
}

func (o *Options) validate() error {
	if o.Gate == nil {
		return errors.New("no Gate; hint: overload.NewGate")
	}
	return CheckHeader(o.Header)
}
