package xdsrules

import (
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// refusedPause is for how long nothing is looked at after a refusal, so that a control plane
// that sends without end costs little; then it is the newest that counts.
const refusedPause = 100 * time.Millisecond

// adsStream is a stream of answers and of what they are answered.
type adsStream = discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// talk asks for rules and takes them until the stream ends, and reports whether anything was
// answered. While a refusal is held back, newer answers are taken, so that rules that are mended count at
// once.
func (c *Client) talk(stream adsStream) (answered bool, err error) {
	// A version of another stream says nothing: those of a control plane that was started
	// again begin anew.
	request := &discovery.DiscoveryRequest{Node: c.node(), TypeUrl: TypeURL}
	if err := stream.Send(request); err != nil {
		return false, err
	}
	newest, ended := receive(stream)
	answers := newest
	take := func(response *discovery.DiscoveryResponse) (time.Duration, error) {
		if !answered {
			answered = true
			c.connected(response)
		}
		return c.take(response)
	}
	finish := func(err error) (bool, error) {
		select {
		case last := <-newest:
			_, _ = take(last) // an error of it is logged, and there is nobody to tell
		default:
		}
		return answered, err
	}
	var pause, due <-chan time.Time
	for {
		select {
		case response := <-answers:
			held, err := take(response)
			request.ResponseNonce, request.ErrorDetail = response.GetNonce(), nil
			if err == nil {
				request.VersionInfo, due = response.GetVersionInfo(), nil
			} else {
				request.ErrorDetail = detailOf(err)
				answers, pause = nil, time.After(refusedPause)
			}
			if held > 0 {
				if due == nil {
					due = time.After(held)
				}
				continue
			}
		case <-pause:
			answers = newest
			continue
		case <-due:
			due = nil
		case err := <-ended:
			return finish(err)
		}
		if stream.Send(request) != nil {
			return finish(<-ended) // which has the cause
		}
	}
}

// connected tells that the control plane answers.
func (c *Client) connected(response *discovery.DiscoveryResponse) {
	c.told = ""
	c.o.Connected(true)
	c.o.Logger.Info("the control plane of the rules answers", "server", c.o.Server, "version", response.GetVersionInfo())
}

// receive reads answers in a goroutine that ends with the stream, and then says why that has ended.
// An answer has all rules, so of those that nobody has taken the newest is kept.
func receive(stream adsStream) (newest <-chan *discovery.DiscoveryResponse, ended <-chan error) {
	answers, end := make(chan *discovery.DiscoveryResponse, 1), make(chan error, 1)
	go func() {
		for {
			response, err := stream.Recv()
			if err != nil {
				end <- err
				return
			}
			if response.GetTypeUrl() != TypeURL {
				continue // nobody asked for it
			}
			select {
			case <-answers:
			default:
			}
			answers <- response
		}
	}()
	return answers, end
}

// refusals are those without an acceptance between them. The zero value is none.
type refusals struct {
	last string // as its error
	held time.Duration
}

// next counts one. It returns for how long it is held back, longer each time where it is the same
// again, and whether its reason is another than that of the one before.
func (r *refusals) next(err error) (held time.Duration, fresh bool) {
	switch text := err.Error(); {
	case r.last == "":
		r.last, r.held = text, 0
		return 0, true
	case r.last != text:
		r.last, r.held = text, firstWait
		return r.held, true
	}
	r.held = min(max(2*r.held, firstWait), longestWait)
	return r.held, false
}
