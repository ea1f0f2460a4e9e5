package audit

import (
	"strconv"
	"unicode/utf8"

	"github.com/headgate/headgate/internal/view"
)

// appendEvent appends e as encoding/json would, on one line whatever its texts hold:
// besides what JSON asks for, all other control characters and line ends of Unicode
// are escaped too.
func appendEvent(dst []byte, e *view.Event) []byte {
	o := object{append(dst, '{')}
	o.integer("schema", int64(e.Schema))
	o.integer("ts", e.TS)
	o.text("event_id", e.EventID)
	o.text("node", e.Node)
	o.text("domain", e.Domain)
	o.text("key", e.Key)
	o.boolean("key_hashed", e.KeyHashed)
	o.descriptors(e.Descriptors)
	if e.DescriptorsCut {
		o.boolean("descriptors_cut", true)
	}
	o.text("rule", e.Rule)
	o.optionalText("limit_name", e.LimitName)
	o.optionalText("role", e.Role)
	o.optionalText("algorithm", e.Algorithm)
	o.integer("limit", e.Limit)
	o.integer("used", e.Used)
	o.integer("remaining", e.Remaining)
	o.integer("hits", e.Hits)
	o.text("outcome", e.Outcome)
	o.boolean("allowed", e.Allowed)
	if e.RetryAfterMS != 0 {
		o.integer("retry_after_ms", e.RetryAfterMS)
	}
	o.text("degraded", e.Degraded)
	if e.Raise != 0 {
		o.integer("raise", int64(e.Raise))
	}
	if e.Until != 0 {
		o.integer("until", e.Until)
	}
	o.optionalText("actor", e.Actor)
	o.optionalText("reason", e.Reason)
	o.optionalText("tier", e.Tier)
	o.optionalText("client_ip", e.ClientIP)
	o.optionalText("user_agent", e.UserAgent)
	o.optionalText("trace_id", e.TraceID)
	o.text("config_version", e.ConfigVersion)
	o.integer("took_us", e.TookUS)
	o.name("sample_rate")
	o.json = strconv.AppendFloat(o.json, e.SampleRate, 'g', -1, 64)
	return append(o.json, '}')
}

// object is a JSON object under way.
type object struct{ json []byte }

func (o *object) name(name string) {
	if last := o.json[len(o.json)-1]; last != '{' {
		o.json = append(o.json, ',')
	}
	o.json = append(o.json, '"')
	o.json = append(o.json, name...)
	o.json = append(o.json, '"', ':')
}

func (o *object) integer(name string, n int64) {
	o.name(name)
	o.json = strconv.AppendInt(o.json, n, 10)
}

func (o *object) boolean(name string, b bool) {
	o.name(name)
	o.json = strconv.AppendBool(o.json, b)
}

func (o *object) text(name, text string) {
	o.name(name)
	o.json = appendText(o.json, text)
}

func (o *object) optionalText(name, text string) {
	if text != "" {
		o.text(name, text)
	}
}

func (o *object) descriptors(list []view.EventDescriptor) {
	if len(list) == 0 {
		return
	}
	o.name("descriptors")
	for i := range list {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		d := object{append(o.json, separator, '{')}
		d.text("entries", list[i].Entries)
		d.integer("hits", list[i].Hits)
		d.optionalText("op", list[i].Op)
		if list[i].OwnLimit {
			d.boolean("own_limit", true)
		}
		o.json = append(d.json, '}')
	}
	o.json = append(o.json, ']')
}

const hexDigits = "0123456789abcdef"

// appendText appends text in quotes. Bytes that are not UTF-8 become U+FFFD.
func appendText(dst []byte, text string) []byte {
	dst = append(dst, '"')
	plain := 0 // text before is appended
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			if r, size = utf8.DecodeRuneInString(text[i:]); !breaksLines(r) && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		dst = append(dst, text[plain:i]...)
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', c)
		case r == utf8.RuneError:
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		}
		i += size
		plain = i
	}
	return append(append(dst, text[plain:]...), '"')
}

// breaksLines reports whether r, which is beyond ASCII, is a control character or ends a
// line.
func breaksLines(r rune) bool { return r < 0xa0 || r == '\u2028' || r == '\u2029' }
