package history

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

// Options says what may have happened besides.
type Options struct {
	// Losses are the times in which a server died whose latest writes may be forgotten.
	Losses []Span
	// BroughtBack says that nodes bring back what they remember after a loss: any state that the
	// bucket had before it may be merged into it (limit.Merge).
	BroughtBack bool
	// Timeout bounds one search; 0 means that it is not bounded.
	Timeout time.Duration
}

// Outcome is what a check has shown.
type Outcome struct {
	// Possible says that there is an order. Undecided says that the search was not finished.
	Possible, Undecided bool
	// Lost is, of a history with losses that is possible, the fewest hits that each of them
	// has to have forgotten at most.
	Lost int64

	model   *model
	history []porcupine.Operation
}

// Check looks for an order of operations on one key by one limit. With losses, it looks for one in which as little
// was forgotten as can be: what a loss may forget is halved again and again between nothing and all hits.
func Check(operations []Operation, o Options) (Outcome, error) {
	if err := suits(operations); err != nil {
		return Outcome{}, err
	}
	m := &model{operations: operations, told: tell(operations), mostLost: -1, brings: o.BroughtBack}
	out := Outcome{model: m, history: m.history(o.Losses)}
	if len(o.Losses) == 0 {
		out.search(m.mostLost, o.Timeout)
		return out, nil
	}
	var most int64 // enough
	for i := range operations {
		most += operations[i].charges()
	}
	if out.search(0, o.Timeout); out.Possible || out.Undecided {
		return out, nil
	}
	if out.search(most, o.Timeout); !out.Possible {
		return out, nil
	}
	for few := int64(0); most-few > 1 && !out.Undecided; {
		if middle := few + (most-few)/2; out.search(middle, o.Timeout) {
			most = middle
		} else {
			few = middle
		}
	}
	out.Possible, out.Lost, m.mostLost = !out.Undecided, most, most
	return out, nil
}

// search looks for an order in which no loss has forgotten more than that, and reports whether there is one.
func (o *Outcome) search(mostLost int64, timeout time.Duration) bool {
	o.model.mostLost = mostLost
	result := porcupine.CheckOperationsTimeout(o.model.sequential(), o.history, timeout)
	o.Possible, o.Undecided = result == porcupine.Ok, result == porcupine.Unknown
	return o.Possible
}

// history returns the operations and losses as porcupine has them.
func (m *model) history(losses []Span) []porcupine.Operation {
	var list []porcupine.Operation
	clients := 0
	for i := range m.operations {
		o := &m.operations[i]
		clients = max(clients, o.Client+1)
		end := o.Return
		if o.Unknown {
			end = o.Call // see the package comment
		}
		list = append(list, porcupine.Operation{ClientId: o.Client, Input: i, Call: int64(o.Call), Return: int64(end)})
	}
	for _, loss := range losses {
		list = append(list, porcupine.Operation{ClientId: clients, Input: forgets{}, Call: int64(loss.Begin), Return: int64(loss.End)})
	}
	return list
}

// Draw writes the history, and how far the search came, as a page to look at into a new file in dir, and returns its
// path.
func (o *Outcome) Draw(dir, name string) (string, error) {
	m := o.model.sequential()
	_, info := porcupine.CheckOperationsVerbose(m, o.history, time.Minute)
	file, err := os.CreateTemp(dir, name+"-*.html")
	if err != nil {
		return "", fmt.Errorf("draw a history: %w", err)
	}
	path, err := filepath.Abs(file.Name())
	if err == nil {
		err = porcupine.Visualize(m, info, file)
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return "", fmt.Errorf("draw a history into %s: %w", file.Name(), err)
	}
	return path, nil
}
