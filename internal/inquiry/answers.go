package inquiry

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// inquiry is a question that is being asked.
type inquiry struct {
	Question
	name  string
	nodes []string // that are asked, a name as often as it has nodes
	seal  *Seal
}

// heard is what one look at the board of the answers has told.
type heard struct {
	answers []Answer // what is believed, and why nothing of a node is
	strange int      // how many answers are of nobody who was asked
	all     bool     // all nodes have answered
	// settled says that there is an answer in the name of each node, though not each is believed.
	settled bool
}

// enough reports whether there is nothing more to wait for so long after the question was asked.
func (h *heard) enough(waited time.Duration) bool {
	return h.all || h.settled && waited >= refusedAfter
}

// read returns what the notices on the board of the answers tell. Of a name under which more nodes have answered
// than have it nothing is believed: nobody can tell which of them it is.
func (q *inquiry) read(notices map[string][]byte) heard {
	asked := map[string]int{}
	for _, node := range q.nodes {
		asked[node]++
	}
	h := heard{all: true, settled: true}
	believed, unread := map[string][]Answer{}, map[string]int{}
	for _, a := range whole(notices) {
		switch {
		case asked[a.Node] == 0:
			h.strange++
		case !q.believe(&a):
			unread[a.Node]++
		default:
			believed[a.Node] = append(believed[a.Node], a)
		}
	}
	for node, of := range asked {
		list := believed[node]
		n := len(list)
		if n > of {
			h.strange += n
			list = []Answer{{Node: node, Err: fmt.Errorf("%d answers are there in its name, which %d nodes have", n, of)}}
		} else if n < of && unread[node] > 0 {
			list = append(list, Answer{Node: node, Err: ErrUnread})
		}
		h.all = h.all && n == of
		h.settled = h.settled && (n == of || n < of && n+unread[node] >= of)
		h.answers = append(h.answers, list...)
	}
	return h
}

// believe opens an answer, and reports whether the node that it names has given it to this question.
func (q *inquiry) believe(a *Answer) bool {
	if !q.Sealed {
		return true
	}
	body, err := q.seal.Open(a.Body, answerPurpose(q.name, q.Kind, a.Node, a.id)...)
	a.Body = body
	return err == nil
}

// split returns an answer as notices: the number of the part and of all, the name of the node, a line feed, and
// so much of the rest.
func split(node string, body []byte) (notices [][]byte) {
	of := max((len(body)+maxAnswer-1)/maxAnswer, 1)
	for i := range of {
		head := fmt.Sprintf("%d %d %s\n", i, of, node)
		notices = append(notices, append([]byte(head), body[i*maxAnswer:min((i+1)*maxAnswer, len(body))]...))
	}
	return notices
}

// whole returns the answers of which all parts are there, by what they stand under on a board.
func whole(notices map[string][]byte) (answers []Answer) {
	for name, first := range notices {
		id, isFirst := strings.CutSuffix(name, "/0")
		if !isFirst {
			continue
		}
		a, of, ok := parse(first, 0)
		for i := 1; ok && i < of; i++ {
			var more Answer
			var all int
			more, all, ok = parse(notices[id+"/"+strconv.Itoa(i)], i)
			ok = ok && all == of && more.Node == a.Node
			a.Body = append(a.Body, more.Body...)
		}
		if a.id = id; ok {
			answers = append(answers, a)
		}
	}
	return answers
}

// parse reads the part of that number, and returns how many there are.
func parse(notice []byte, number int) (a Answer, of int, ok bool) {
	head, body, _ := bytes.Cut(notice, []byte("\n"))
	words := strings.SplitN(string(head), " ", 3)
	if len(words) != 3 || words[0] != strconv.Itoa(number) || words[2] == "" || len(words[2]) > maxName {
		return a, 0, false
	}
	of, err := strconv.Atoi(words[1])
	return Answer{Node: words[2], Body: slices.Clone(body)}, of, err == nil && of > 0 && of <= maxParts
}
