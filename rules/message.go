package rules

import (
	"fmt"
	"strings"
)

// MaxMessage bounds Message.Text, in bytes.
const MaxMessage = 512

// Message is the sentence that a rule gives in place of the one in the body of a
// denial. It may have placeholders:
//
//	{key}          what the limit counts by, such as "user:42, endpoint:POST /v1/orders"
//	{entry.NAME}   the value of the entry NAME of that
//	{route}        what is asked for: the value of the entry endpoint, route or path
//	{rule}         the name of the limit, as RateLimit-Policy has it
//	{limit}        how many are allowed
//	{window}       the length of the window, such as "1m"
//	{retry_after}  whole seconds until the request would pass
//
// "{{" and "}}" stand for a brace. The zero value is an empty sentence.
type Message struct {
	// Text is the sentence as it was written.
	Text string
	// Parts are what Text consists of, in order.
	Parts []MessagePart
}

// MessagePart is a piece of a Message.
type MessagePart struct {
	// Kind says what stands here.
	Kind MessageKind
	// Text is the text of MessageText, and the key of MessageEntry.
	Text string
}

// MessageKind is what stands in one place of a Message.
type MessageKind uint8

// The kinds of parts. The zero value is text.
const (
	MessageText MessageKind = iota
	MessageKey
	MessageEntry
	MessageRule
	MessageLimit
	MessageWindow
	MessageRetryAfter
	MessageRoute
)

// placeholders are the names of those that need no entry.
var placeholders = map[string]MessageKind{
	"key": MessageKey, "route": MessageRoute, "rule": MessageRule, "limit": MessageLimit, "window": MessageWindow, "retry_after": MessageRetryAfter,
}

// entryPrefix begins the name of a placeholder for an entry.
const entryPrefix = "entry."

// ParseMessage reads a sentence with placeholders. It looks at these alone: how long
// the text is, and which characters it has, is for the caller to see to.
func ParseMessage(text string) (*Message, error) {
	m := &Message{Text: text}
	var plain strings.Builder
	for rest := text; rest != ""; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			plain.WriteString(rest)
			break
		}
		plain.WriteString(rest[:at])
		brace := rest[at]
		rest = rest[at+1:]
		if rest != "" && rest[0] == brace {
			plain.WriteByte(brace)
			rest = rest[1:]
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if brace == '}' || !closed {
			return nil, fmt.Errorf("a %c stands alone", brace)
		}
		part, err := placeholder(name)
		if err != nil {
			return nil, err
		}
		m.addText(&plain)
		m.Parts = append(m.Parts, part)
		rest = after
	}
	m.addText(&plain)
	return m, nil
}

func (m *Message) addText(plain *strings.Builder) {
	if plain.Len() > 0 {
		m.Parts = append(m.Parts, MessagePart{Kind: MessageText, Text: plain.String()})
		plain.Reset()
	}
}

func placeholder(name string) (MessagePart, error) {
	if kind, ok := placeholders[name]; ok {
		return MessagePart{Kind: kind}, nil
	}
	if entry, ok := strings.CutPrefix(name, entryPrefix); ok && entry != "" {
		return MessagePart{Kind: MessageEntry, Text: entry}, nil
	}
	return MessagePart{}, fmt.Errorf("placeholder {%.64s} is unknown", name)
}
