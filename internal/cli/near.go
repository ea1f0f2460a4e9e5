package cli

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/spelling"
)

// nearMark is what the parser has between what is wrong with a word and those that it takes for near.
const nearMark = ", did you mean "

// offered is a word that the parser takes for near.
var offered = regexp.MustCompile(`"([^"]+)"`)

// onlyNear leaves of the words that an error of the parser offers those that are near as everywhere else here
// (spelling.Nearest), or begin with what was typed. The parser also offers words of three letters of which two
// are others.
func onlyNear(err error) error {
	said, offer, offers := strings.Cut(err.Error(), nearMark)
	if !offers {
		return err
	}
	typed := said[strings.LastIndexByte(said, ' ')+1:]
	var near []string
	for _, found := range offered.FindAllStringSubmatch(offer, -1) {
		if word := found[1]; strings.HasPrefix(word, typed) || spelling.Nearest(typed, slices.Values([]string{word})) != "" {
			near = append(near, found[0])
		}
	}
	switch len(near) {
	case 0:
		return errors.New(said)
	case 1:
		return errors.New(said + nearMark + near[0] + "?")
	}
	return errors.New(said + nearMark + "one of " + strings.Join(near, ", ") + "?")
}
