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
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
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
	strictjson.Scanner
	limits *callerLimits
	// verb is what the path does to all descriptors of a body: store.Hit leaves it
	// to each, store.Renew and store.Release do not.
	verb store.Op
	// reserves says that the body asks for a reservation, and reservation for which.
	reserves    bool
	reservation reservation.Options
	// trace is that of the call, and so of all checks in it.
	trace trace.Parent

	requests []headgate.Request
	// holds[i] is by which id request i holds, "" for none that the caller knows.
	holds []string
	// ids[i] is the id of request i, "" for none; named says that one has one.
	ids         []string
	named       bool
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
	hasHits
	hasAlgorithm
	hasBurst
	hasOp
	hasHold
	hasInFlight
	hasClient
	hasID
	hasChecks
)

const (
	domainForm = hasDomain | hasDescriptors | hasAttributes
	keyForm    = hasKey | hasLimit | hasWindow | hasHits | hasAlgorithm | hasBurst | hasOp
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
	// once is the id of the check itself.
	once string
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
func (d *decoder) decode(text string) *strictjson.Error {
	d.Scanner = strictjson.NewScanner(text)
	c := check{}
	err := d.Object(func(name string) *strictjson.Error {
		switch {
		case d.reserves && (name == "id" || name == "ttl_ms"):
			return d.reserveMember(name)
		case name != "checks":
			return d.member(&c, name)
		case d.reserves:
			return &strictjson.Error{What: "reservations are made one by one", Hint: "send several requests"}
		}
		c.has |= hasChecks
		return d.checks()
	})
	if err != nil {
		return err
	}
	if err := d.End(); err != nil {
		return err
	}
	if c.has&hasChecks == 0 {
		return d.finish(&c)
	}
	if c.has != hasChecks {
		return &strictjson.Error{What: "checks stands beside members of a single check", Hint: "put every check into checks"}
	}
	d.batch = true
	return nil
}

func (d *decoder) checks() *strictjson.Error {
	if err := d.Array(maxChecks, func(int) *strictjson.Error {
		c := check{from: len(d.descriptors)}
		if err := d.Object(func(name string) *strictjson.Error { return d.member(&c, name) }); err != nil {
			return err
		}
		return d.finish(&c)
	}); err != nil {
		return err
	}
	if len(d.requests) == 0 {
		return &strictjson.Error{What: "empty", Hint: "at least one check"}
	}
	return nil
}

// member reads one member of a check.
func (d *decoder) member(c *check, name string) (err *strictjson.Error) {
	switch name {
	case "domain":
		c.has |= hasDomain
		c.domain, err = d.Text()
	case "descriptors":
		c.has |= hasDescriptors
		err = d.Array(descriptor.MaxDescriptors, func(int) *strictjson.Error { return d.descriptor() })
	case "attributes":
		c.has |= hasAttributes
		c.attributes, err = d.attributes()
	case "key":
		c.has |= hasKey
		c.key, err = d.Text()
	case "limit":
		c.has |= hasLimit
		c.spec.Quota, err = d.Integer(0, limit.MaxQuota)
	case "window_ms":
		c.has |= hasWindow
		var ms int64
		ms, err = d.Integer(1, maxWindow)
		c.spec.Period = time.Duration(ms) * time.Millisecond
	case "hits", "weight": // two names of one member; the second is an older one
		if c.has&hasHits != 0 {
			return &strictjson.Error{What: "hits and weight in one check", Hint: "two names of the same; send hits"}
		}
		c.has |= hasHits
		err = d.hits(&c.cost)
	case "algorithm":
		c.has |= hasAlgorithm
		c.spec.Algorithm, err = d.algorithm()
	case "burst":
		c.has |= hasBurst
		c.spec.Burst, err = d.Integer(1, limit.MaxQuota)
	case "op":
		c.has |= hasOp
		err = d.op(&c.cost)
	case "hold":
		c.has |= hasHold
		c.id, err = d.hold()
	case "id":
		c.has |= hasID
		c.once, err = d.checkID()
	case "in_flight_ms":
		c.has |= hasInFlight
		c.inFlight, err = d.inFlight()
	case "client_ip":
		c.has |= hasClient
		c.clientIP, err = d.address()
	case "user_agent":
		c.has |= hasClient
		c.userAgent, err = d.Text()
	default:
		return &strictjson.Error{What: "unknown member of a check", Hint: "domain, descriptors, attributes; or key, limit, window_ms, hits, algorithm, burst, op; id, hold, client_ip and user_agent with either; or checks"}
	}
	return err
}

// address reads an IP address; "" is none.
func (d *decoder) address() (netip.Addr, *strictjson.Error) {
	text, err := d.Text()
	if err != nil || text == "" {
		return netip.Addr{}, err
	}
	addr, parseErr := netip.ParseAddr(text)
	if parseErr != nil || addr.Zone() != "" {
		return netip.Addr{}, &strictjson.Error{What: "no IP address: " + strictjson.Quoted(text), Hint: "such as 203.0.113.9 or 2001:db8::9, without a port or a zone; leave it out where it is not known"}
	}
	return addr.Unmap(), nil
}

// finish appends the request of a check that was read.
func (d *decoder) finish(c *check) *strictjson.Error {
	if c.has&domainForm != 0 && c.has&keyForm != 0 {
		return &strictjson.Error{What: "members of two forms in one check", Hint: "either domain and descriptors, or key, limit and window_ms; a descriptor has its own hits and op"}
	}
	if c.has&keyForm != 0 {
		return d.finishKey(c)
	}
	if c.has&hasDomain == 0 || c.has&hasDescriptors == 0 {
		return &strictjson.Error{What: "a check needs domain and descriptors, or key, limit and window_ms"}
	}
	if c.domain == headgate.CallerDomain {
		return strictjson.InMember(&strictjson.Error{What: "reserved: " + strictjson.Quoted(c.domain), Hint: "send key, limit and window_ms instead"}, "domain")
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
func (d *decoder) finishKey(c *check) *strictjson.Error {
	if d.reserves {
		return &strictjson.Error{What: "limits named by the caller cannot be reserved", Hint: "use domain and descriptors, limited by the server's rules"}
	}
	if missing := hasKey | hasLimit | hasWindow; c.has&missing != missing {
		return &strictjson.Error{What: "a check with a key needs limit and window_ms too", Hint: "or domain and descriptors, limited by the server's rules"}
	}
	if c.key == "" {
		return strictjson.InMember(&strictjson.Error{What: "empty", Hint: "all callers would share one bucket"}, "key")
	}
	if err := d.complete(&c.cost); err != nil {
		return err
	}
	if c.spec.Algorithm == limit.Concurrency && c.id == "" && c.cost.op == store.Hit && c.cost.hits > 0 {
		// Nobody could release it, so it would hold nothing and never deny.
		return strictjson.InMember(&strictjson.Error{What: "concurrency counts requests in flight, and this one holds nothing", Hint: "hold at /v1/check, by which it is renewed and released; or hits 0 to look"}, "algorithm")
	}
	named, err := d.limits.Get(c.spec)
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
func badLimit(err error) *strictjson.Error {
	spec, ok := errors.AsType[*limit.SpecError](err)
	if !ok {
		return &strictjson.Error{What: err.Error()}
	}
	member, ok := memberOf[spec.Field]
	if !ok {
		member = spec.Field
	}
	return strictjson.InMember(&strictjson.Error{What: spec.Problem, Hint: spec.Hint}, member)
}

func (d *decoder) addDescriptor(one headgate.Descriptor) *strictjson.Error {
	if len(d.descriptors) == maxDescriptors {
		return &strictjson.Error{Status: statusTooLarge, What: fmt.Sprintf("more than %d descriptors in one body", maxDescriptors), Hint: "send several requests"}
	}
	d.descriptors = append(d.descriptors, one)
	return nil
}

// descriptor reads one element of descriptors.
func (d *decoder) descriptor() *strictjson.Error {
	var c cost
	first, given := len(d.entries), false
	err := d.Object(func(name string) *strictjson.Error {
		switch name {
		case "entries", "descriptor":
			if given {
				return &strictjson.Error{What: "entries and descriptor in one", Hint: "two ways to write the same; send one of them"}
			}
			given = true
			if name == "descriptor" {
				return d.text()
			}
			return d.Array(descriptor.MaxEntries, func(int) *strictjson.Error { return d.entry() })
		case "hits":
			return d.hits(&c)
		case "op":
			return d.op(&c)
		}
		return &strictjson.Error{What: "unknown member of a descriptor", Hint: "entries or descriptor, hits, op"}
	})
	if err != nil {
		return err
	}
	if len(d.entries) == first {
		return &strictjson.Error{What: "a descriptor needs entries"}
	}
	if err := d.complete(&c); err != nil {
		return err
	}
	return d.addDescriptor(headgate.Descriptor{
		Entries: d.entries[first:len(d.entries):len(d.entries)],
		Hits:    c.hits, Op: c.op,
	})
}

// text reads entries in their canonical text form.
func (d *decoder) text() *strictjson.Error {
	text, err := d.Text()
	if err != nil {
		return err
	}
	entries, parseErr := descriptor.Parse(text)
	if parseErr != nil {
		return &strictjson.Error{What: parseErr.Error()}
	}
	d.entries = append(d.entries, entries...)
	return nil
}

func (d *decoder) entry() *strictjson.Error {
	var e descriptor.Entry
	given := false
	err := d.Object(func(name string) (err *strictjson.Error) {
		switch name {
		case "key":
			given = true
			e.Key, err = d.Text()
		case "value":
			e.Value, err = d.Text()
		default:
			err = &strictjson.Error{What: "unknown member of an entry", Hint: "key, value"}
		}
		return err
	})
	if err != nil {
		return err
	}
	if !given {
		return &strictjson.Error{What: "an entry needs a key"}
	}
	d.entries = append(d.entries, e)
	return nil
}

// attributes reads an object of strings. It does not reuse memory: attributes
// are rare.
func (d *decoder) attributes() ([]descriptor.Entry, *strictjson.Error) {
	var entries []descriptor.Entry
	err := d.Object(func(name string) *strictjson.Error {
		if len(entries) == maxAttributes {
			return &strictjson.Error{Status: statusTooLarge, What: fmt.Sprintf("more than %d attributes", maxAttributes)}
		}
		value, err := d.Text()
		entries = append(entries, descriptor.Entry{Key: name, Value: value})
		return err
	})
	return entries, err
}

// hits reads a cost; a negative one is a refund.
func (d *decoder) hits(c *cost) (err *strictjson.Error) {
	c.given = true
	c.hits, err = d.Integer(-limit.MaxQuota, limit.MaxQuota)
	return err
}

func (d *decoder) op(c *cost) *strictjson.Error {
	name, err := d.Text()
	if err != nil {
		return err
	}
	if c.op, c.opSet = store.ParseOp(name); !c.opSet {
		return &strictjson.Error{What: "unknown operation " + strictjson.Quoted(name), Hint: "hit, charge, refund, reset, renew or release"}
	}
	return nil
}

// complete fills in the defaults of c and refuses what contradicts itself.
func (d *decoder) complete(c *cost) *strictjson.Error {
	switch {
	case d.reserves && (c.opSet || c.hits < 0):
		return &strictjson.Error{What: "only hits can be reserved", Hint: "leave op out; send refunds, resets and the like to /v1/check"}
	case d.verb != store.Hit && c.opSet:
		return &strictjson.Error{What: "op beside what the path says", Hint: "leave it out, or send it to /v1/check"}
	case d.verb != store.Hit:
		c.hits, c.op = 0, d.verb
	case !c.given && c.op != store.Reset && !isInFlight(c.op):
		c.hits = 1
	case c.op == store.Reset && c.hits != 0:
		return &strictjson.Error{What: "a reset takes no hits", Hint: "leave them out"}
	case c.hits < 0 && c.opSet:
		return &strictjson.Error{What: "negative hits beside op", Hint: "either negative hits, or op refund with positive ones"}
	case c.hits < 0:
		c.hits, c.op = -c.hits, store.Refund
	}
	if isInFlight(c.op) && c.hits > maxInFlight {
		return strictjson.InMember(inFlightTooLong(c.hits), "hits")
	}
	return nil
}

func (d *decoder) algorithm() (limit.Algorithm, *strictjson.Error) {
	name, err := d.Text()
	if err != nil {
		return 0, err
	}
	a, parseErr := limit.ParseAlgorithm(name)
	if parseErr != nil {
		return 0, &strictjson.Error{What: fmt.Sprintf("unknown algorithm %.40q", name), Hint: "sliding_window, fixed_window, sub_windows, sliding_log, token_bucket, leaky_bucket, leaky_queue, gcra; or concurrency, with hold"}
	}
	if a == limit.Ban {
		return 0, &strictjson.Error{What: "ban counts denials, not requests", Hint: "a rule may have a ban beside its limit"}
	}
	return a, nil
}

// windowOf writes the period of a limit as it enters the identity of a bucket.
func windowOf(spec limit.Spec) string {
	return strconv.FormatInt(int64(spec.Period/time.Millisecond), 10)
}
