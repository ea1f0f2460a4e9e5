package callers

import (
	"errors"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/spelling"
)

// rights is a set of rights: bit i is that of rightNames[i].
type rights uint8

// rightNames are the rights as files name them.
var rightNames = [...]string{headgate.RightCheck, headgate.RightNameLimits, headgate.RightGiveBack, headgate.RightReserve, headgate.RightExplain}

// combinations is how many sets there are.
const combinations = 1 << len(rightNames)

func setOf(r headgate.Rights) (s rights) {
	for i, has := range [...]bool{r.Check, r.NameLimits, r.GiveBack, r.Reserve, r.Explain} {
		if has {
			s |= 1 << i
		}
	}
	return s
}

func (s rights) rights() headgate.Rights {
	has := func(i int) bool { return s&(1<<i) != 0 }
	return headgate.Rights{Check: has(0), NameLimits: has(1), GiveBack: has(2), Reserve: has(3), Explain: has(4)}
}

// String returns the names of s, one of which is needed.
func (s rights) String() string {
	var names []string
	for i, name := range rightNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

func parseRights(names []string) (s rights, err error) {
	for _, name := range names {
		i := slices.Index(rightNames[:], name)
		if i < 0 {
			return 0, spelling.Unknown("right", name, rightNames[:]...)
		}
		s |= 1 << i
	}
	return s, nil
}

// checkRights refuses names that are of no right, and an empty list.
func checkRights(names []string) error {
	s, err := parseRights(names)
	if err == nil && s == 0 {
		err = errors.New("no rights; hint: rights: [check]")
	}
	return err
}

// Listener is one that callers reach.
type Listener uint8

// The listeners. Auth is that of gateways that ask by sub-requests, and Envoy's external
// authorization on that of gRPC.
const (
	HTTP Listener = iota
	GRPC
	Auth
	Ops
	Redis

	listeners
)

var listenerNames = [listeners]string{"http", "grpc", "auth", "ops", "redis"}

// String returns the name used in files.
func (l Listener) String() string { return listenerNames[l] }

func parseListener(name string) (Listener, error) {
	if i := slices.Index(listenerNames[:], name); i >= 0 {
		return Listener(i), nil
	}
	return 0, spelling.Unknown("listener", name, listenerNames[:]...)
}
