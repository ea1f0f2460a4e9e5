package httpcheck

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Bounds of one body. They keep the work of one request small beside what the
// server does in its time budget; whoever has more sends several.
const (
	// maxBody is the longest body, in bytes.
	maxBody = 1 << 20
	// maxChecks is the longest batch.
	maxChecks = 1000
	// maxDescriptors bounds the descriptors of all checks of a body together.
	maxDescriptors = 1000
	// maxAttributes is the number of attributes of one check.
	maxAttributes = 32
)

const statusTooLarge = http.StatusRequestEntityTooLarge

// maxWindow is the longest window_ms.
const maxWindow = int64(limit.MaxPeriod / time.Millisecond)

// decoder turns a body into requests. Everything that it appends to is reused
// by the next body.
type decoder struct {
	scanner
	limits *callerLimits
	// verb is what the path does to all descriptors of a body: store.Hit leaves it
	// to each, store.Renew and store.Release do not.
	verb store.Op
	// reserves says that the body asks for a reservation, and reservation for which.
	reserves    bool
	reservation headgate.ReserveOptions
	// trace is that of the call, and so of all checks in it.
	trace headgate.Trace

	requests []headgate.Request
	// holds[i] is by which id request i holds, "" for none that the caller knows.
	holds       []string
	descriptors []headgate.Descriptor
	entries     []descriptor.Entry
	batch       bool
}

// The members of a check, as bits. The first three make the form of a domain
// with descriptors, those after them the form of a key with its limit; the last
// ones, from hold on, belong to neither.
const (
	hasDomain = 1 << iota
	hasDescriptors
	hasAttributes
	hasKey
	hasLimit
	hasWindow
	hasWeight
	hasAlgorithm
	hasBurst
	hasOp
	hasHold
	hasInFlight
	hasClient
	hasChecks
)

const (
	domainForm = hasDomain | hasDescriptors | hasAttributes
	keyForm    = hasKey | hasLimit | hasWindow | hasWeight | hasAlgorithm | hasBurst | hasOp
)

// check is one check while it is read.
type check struct {
	has         int
	domain, key string
	spec        limit.Spec
	cost        cost
	attributes  []descriptor.Entry
	// id is the hold, inFlight what is charged of the time in milliseconds.
	id       string
	inFlight int64
	// clientIP and userAgent are those of whoever the caller asks for.
	clientIP  netip.Addr
	userAgent string
	// descriptors[from:] of the decoder are its own.
	from int
}

// cost is what is asked of a bucket.
type cost struct {
	hits  int64
	given bool
	op    store.Op
	opSet bool
}

// decode reads a whole body.
func (d *decoder) decode(text string) *inputError {
	d.scanner = scanner{text: text}
	c := check{}
	err := d.object(func(name string) *inputError {
		switch {
		case d.reserves && (name == "id" || name == "ttl_ms"):
			return d.reserveMember(name)
		case name != "checks":
			return d.member(&c, name)
		case d.reserves:
			return &inputError{what: "reservations are made one by one", hint: "send several requests"}
		}
		c.has |= hasChecks
		return d.checks()
	})
	if err != nil {
		return err
	}
	if err := d.end(); err != nil {
		return err
	}
	if c.has&hasChecks == 0 {
		return d.finish(&c)
	}
	if c.has != hasChecks {
		return &inputError{what: "checks stands beside members of a single check", hint: "put every check into checks"}
	}
	d.batch = true
	return nil
}

func (d *decoder) checks() *inputError {
	if err := d.array(maxChecks, func(int) *inputError {
		c := check{from: len(d.descriptors)}
		if err := d.object(func(name string) *inputError { return d.member(&c, name) }); err != nil {
			return err
		}
		return d.finish(&c)
	}); err != nil {
		return err
	}
	if len(d.requests) == 0 {
		return &inputError{what: "empty", hint: "at least one check"}
	}
	return nil
}

// member reads one member of a check.
func (d *decoder) member(c *check, name string) (err *inputError) {
	switch name {
	case "domain":
		c.has |= hasDomain
		c.domain, err = d.string()
	case "descriptors":
		c.has |= hasDescriptors
		err = d.array(descriptor.MaxDescriptors, func(int) *inputError { return d.descriptor() })
	case "attributes":
		c.has |= hasAttributes
		c.attributes, err = d.attributes()
	case "key":
		c.has |= hasKey
		c.key, err = d.string()
	case "limit":
		c.has |= hasLimit
		c.spec.Quota, err = d.integer(0, limit.MaxQuota)
	case "window_ms":
		c.has |= hasWindow
		var ms int64
		ms, err = d.integer(1, maxWindow)
		c.spec.Period = time.Duration(ms) * time.Millisecond
	case "weight":
		c.has |= hasWeight
		err = d.hits(&c.cost)
	case "algorithm":
		c.has |= hasAlgorithm
		c.spec.Algorithm, err = d.algorithm()
	case "burst":
		c.has |= hasBurst
		c.spec.Burst, err = d.integer(1, limit.MaxQuota)
	case "op":
		c.has |= hasOp
		err = d.op(&c.cost)
	case "hold":
		c.has |= hasHold
		c.id, err = d.hold()
	case "in_flight_ms":
		c.has |= hasInFlight
		c.inFlight, err = d.inFlight()
	case "client_ip":
		c.has |= hasClient
		c.clientIP, err = d.address()
	case "user_agent":
		c.has |= hasClient
		c.userAgent, err = d.string()
	default:
		return &inputError{what: "unknown member of a check", hint: "domain, descriptors, attributes; or key, limit, window_ms, weight, algorithm, burst, op; hold, client_ip and user_agent with either; or checks"}
	}
	return err
}

// address reads an IP address; "" is none.
func (d *decoder) address() (netip.Addr, *inputError) {
	text, err := d.string()
	if err != nil || text == "" {
		return netip.Addr{}, err
	}
	addr, parseErr := netip.ParseAddr(text)
	if parseErr != nil || addr.Zone() != "" {
		return netip.Addr{}, &inputError{what: "no IP address: " + quoted(text), hint: "such as 203.0.113.9 or 2001:db8::9, without a port or a zone; leave it out where it is not known"}
	}
	return addr.Unmap(), nil
}

// finish appends the request of a check that was read.
func (d *decoder) finish(c *check) *inputError {
	if c.has&domainForm != 0 && c.has&keyForm != 0 {
		return &inputError{what: "members of two forms in one check", hint: "either domain and descriptors, or key, limit and window_ms; a descriptor has its own hits and op"}
	}
	if c.has&keyForm != 0 {
		return d.finishKey(c)
	}
	if c.has&hasDomain == 0 || c.has&hasDescriptors == 0 {
		return &inputError{what: "a check needs domain and descriptors, or key, limit and window_ms"}
	}
	if c.domain == headgate.CallerDomain {
		return inMember(&inputError{what: "reserved: " + quoted(c.domain), hint: "send key, limit and window_ms instead"}, "domain")
	}
	d.addRequest(c, headgate.Request{
		Domain:      c.domain,
		Descriptors: d.descriptors[c.from:len(d.descriptors):len(d.descriptors)],
		Attributes:  c.attributes,
	})
	return nil
}

// finishKey appends the request of a check whose limit the caller named. The
// window is part of the bucket's identity, so that one key can have several
// limits side by side; the numbers in it may change while the bucket lives.
func (d *decoder) finishKey(c *check) *inputError {
	if d.reserves {
		return &inputError{what: "limits named by the caller cannot be reserved", hint: "use domain and descriptors, limited by the server's rules"}
	}
	if missing := hasKey | hasLimit | hasWindow; c.has&missing != missing {
		return &inputError{what: "a check with a key needs limit and window_ms too", hint: "or domain and descriptors, limited by the server's rules"}
	}
	if c.key == "" {
		return inMember(&inputError{what: "empty", hint: "all callers would share one bucket"}, "key")
	}
	if err := d.settle(&c.cost); err != nil {
		return err
	}
	named, err := d.limits.get(c.spec)
	if err != nil {
		return badLimit(err)
	}
	first := len(d.entries)
	d.entries = append(d.entries, descriptor.Entry{Key: "key", Value: c.key}, descriptor.Entry{Key: "window_ms", Value: named.window})
	from := len(d.descriptors)
	if err := d.addDescriptor(headgate.Descriptor{
		Entries: d.entries[first:len(d.entries):len(d.entries)],
		Hits:    c.cost.hits, Op: c.cost.op, Limit: named.limit,
	}); err != nil {
		return err
	}
	d.addRequest(c, headgate.Request{
		Domain:      headgate.CallerDomain,
		Descriptors: d.descriptors[from:len(d.descriptors):len(d.descriptors)],
	})
	return nil
}

// memberOf names the members that hold the fields of a limit.Spec.
var memberOf = map[string]string{"quota": "limit", "period": "window_ms"}

// badLimit tells what limit.New found wrong in the words of the body.
func badLimit(err error) *inputError {
	var spec *limit.SpecError
	if !errors.As(err, &spec) {
		return &inputError{what: err.Error()}
	}
	member, ok := memberOf[spec.Field]
	if !ok {
		member = spec.Field
	}
	return inMember(&inputError{what: spec.Problem, hint: spec.Hint}, member)
}

func (d *decoder) addDescriptor(one headgate.Descriptor) *inputError {
	if len(d.descriptors) == maxDescriptors {
		return &inputError{status: statusTooLarge, what: fmt.Sprintf("more than %d descriptors in one body", maxDescriptors), hint: "send several requests"}
	}
	d.descriptors = append(d.descriptors, one)
	return nil
}

// descriptor reads one element of descriptors.
func (d *decoder) descriptor() *inputError {
	var c cost
	first, given := len(d.entries), false
	err := d.object(func(name string) *inputError {
		switch name {
		case "entries", "descriptor":
			if given {
				return &inputError{what: "entries and descriptor in one", hint: "two ways to write the same; send one of them"}
			}
			given = true
			if name == "descriptor" {
				return d.text()
			}
			return d.array(descriptor.MaxEntries, func(int) *inputError { return d.entry() })
		case "hits":
			return d.hits(&c)
		case "op":
			return d.op(&c)
		}
		return &inputError{what: "unknown member of a descriptor", hint: "entries or descriptor, hits, op"}
	})
	if err != nil {
		return err
	}
	if !given {
		return &inputError{what: "a descriptor needs entries"}
	}
	if err := d.settle(&c); err != nil {
		return err
	}
	return d.addDescriptor(headgate.Descriptor{
		Entries: d.entries[first:len(d.entries):len(d.entries)],
		Hits:    c.hits, Op: c.op,
	})
}

// text reads entries in their canonical text form.
func (d *decoder) text() *inputError {
	text, err := d.string()
	if err != nil {
		return err
	}
	entries, parseErr := descriptor.Parse(text)
	if parseErr != nil {
		return &inputError{what: parseErr.Error()}
	}
	d.entries = append(d.entries, entries...)
	return nil
}

func (d *decoder) entry() *inputError {
	var e descriptor.Entry
	given := false
	err := d.object(func(name string) (err *inputError) {
		switch name {
		case "key":
			given = true
			e.Key, err = d.string()
		case "value":
			e.Value, err = d.string()
		default:
			err = &inputError{what: "unknown member of an entry", hint: "key, value"}
		}
		return err
	})
	if err != nil {
		return err
	}
	if !given {
		return &inputError{what: "an entry needs a key"}
	}
	d.entries = append(d.entries, e)
	return nil
}

// attributes reads an object of strings. It does not reuse memory: attributes
// are rare.
func (d *decoder) attributes() ([]descriptor.Entry, *inputError) {
	var entries []descriptor.Entry
	err := d.object(func(name string) *inputError {
		if len(entries) == maxAttributes {
			return &inputError{status: statusTooLarge, what: fmt.Sprintf("more than %d attributes", maxAttributes)}
		}
		value, err := d.string()
		entries = append(entries, descriptor.Entry{Key: name, Value: value})
		return err
	})
	return entries, err
}

// hits reads a cost; a negative one is a refund.
func (d *decoder) hits(c *cost) (err *inputError) {
	c.given = true
	c.hits, err = d.integer(-limit.MaxQuota, limit.MaxQuota)
	return err
}

func (d *decoder) op(c *cost) *inputError {
	name, err := d.string()
	if err != nil {
		return err
	}
	c.opSet = true
	switch name {
	case "hit":
		c.op = store.Hit
	case "refund":
		c.op = store.Refund
	case "reset":
		c.op = store.Reset
	case "renew":
		c.op = store.Renew
	case "release":
		c.op = store.Release
	case "charge":
		c.op = store.Charge
	default:
		return &inputError{what: "unknown operation " + quoted(name), hint: "hit, charge, refund, reset, renew or release"}
	}
	return nil
}

// settle fills in the defaults of c and refuses what contradicts itself.
func (d *decoder) settle(c *cost) *inputError {
	switch {
	case d.reserves && (c.opSet || c.hits < 0):
		return &inputError{what: "only hits can be reserved", hint: "leave op out; send refunds, resets and the like to /v1/check"}
	case d.verb != store.Hit && c.opSet:
		return &inputError{what: "op beside what the path says", hint: "leave it out, or send it to /v1/check"}
	case d.verb != store.Hit:
		c.hits, c.op = 0, d.verb
	case !c.given && c.op != store.Reset && !isInFlight(c.op):
		c.hits = 1
	case c.op == store.Reset && c.hits != 0:
		return &inputError{what: "a reset takes no hits", hint: "leave them out"}
	case c.hits < 0 && c.opSet:
		return &inputError{what: "negative hits beside op", hint: "either negative hits, or op refund with positive ones"}
	case c.hits < 0:
		c.hits, c.op = -c.hits, store.Refund
	}
	if isInFlight(c.op) && c.hits > maxInFlight {
		return inMember(inFlightTooLong(c.hits), "hits")
	}
	return nil
}

func (d *decoder) algorithm() (limit.Algorithm, *inputError) {
	name, err := d.string()
	if err != nil {
		return 0, err
	}
	a, parseErr := limit.ParseAlgorithm(name)
	if parseErr != nil {
		return 0, &inputError{what: parseErr.Error()}
	}
	return a, nil
}

// windowOf writes the period of a limit as it enters the identity of a bucket.
func windowOf(spec limit.Spec) string {
	return strconv.FormatInt(int64(spec.Period/time.Millisecond), 10)
}
