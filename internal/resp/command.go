package resp

import "strconv"

// Command is what a server is asked: words, of which the first is the name of the command,
// then keys and args, for a script. The zero value is none.
type Command struct {
	words, keys, args []string
}

// Words returns the command of some words.
func Words(words ...string) Command { return Command{words: words} }

// Script returns the command that runs a script, EVAL or EVALSHA, on keys and args. Both are
// read until the command has been asked, and no longer.
func Script(name, script string, keys, args []string) Command {
	return Command{[]string{name, script, strconv.Itoa(len(keys))}, keys, args}
}

// appendTo appends the command as it is sent.
func (c Command) appendTo(b []byte) []byte {
	b = appendNumber(b, '*', len(c.words)+len(c.keys)+len(c.args))
	for _, list := range [...][]string{c.words, c.keys, c.args} {
		for _, word := range list {
			b = appendNumber(b, '$', len(word))
			b = append(b, word...)
			b = append(b, '\r', '\n')
		}
	}
	return b
}

// appendNumber appends a line of one number.
func appendNumber(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}
