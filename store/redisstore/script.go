package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/headgate/headgate/limit"
)

// The script that decides batches is put together from these files. The first
// says what it takes and returns, take.lua goes through the takes, and the
// others stand in it where their names do: the algorithms, and the writing of a
// state. The scripts as Redis gets them are in lua/expanded.
var (
	//go:embed lua/head.lua
	luaHead string
	//go:embed lua/take.lua
	luaTake string
	//go:embed lua/sliding_window.lua
	luaSlidingWindow string
	//go:embed lua/fixed_window.lua
	luaFixedWindow string
	//go:embed lua/sub_windows.lua
	luaSubWindows string
	//go:embed lua/sliding_log.lua
	luaSlidingLog string
	//go:embed lua/tat.lua
	luaTAT string
	//go:embed lua/concurrency.lua
	luaConcurrency string
	//go:embed lua/ban.lua
	luaBan string
	//go:embed lua/carry.lua
	luaCarry string
	//go:embed lua/tally.lua
	luaTally string
	//go:embed lua/terms.lua
	luaTerms string
	//go:embed lua/mark.lua
	luaMark string
	//go:embed lua/load.lua
	luaLoad string
	//go:embed lua/unpack.lua
	luaUnpack string
	//go:embed lua/limit.lua
	luaLimit string
	//go:embed lua/quick.lua
	luaQuick string
	//go:embed lua/likely.lua
	luaLikely string
	//go:embed lua/pack.lua
	luaPack string
	//go:embed lua/kept_save.lua
	luaKeptSave string
	//go:embed lua/save.lua
	luaSave string
)

// sections are put into take.lua, and into other scripts that decide. They work on
// its variables:
//
//	in   algorithm, hits, refund, quota, period, denied, kind, a, b, c: a take
//	     and the state of its bucket; at, from which TAKE_BYTES on stands what
//	     only some limits have
//	out  verdict, remaining, reset: the answer, where negative numbers count as
//	     0; kind, a, b, c with changed, if the state is to be written; extra, the
//	     bytes beyond TAKE_BYTES
//
// With refund > 0 that many hits are given back, hits is 0, and again asks for
// another run, which answers as a peek. With denied == 1 hits are charged whether
// they fit or not, by every algorithm; debt is false, or how many more than the quota
// may be charged. SUB_WINDOWS, SLIDING_LOG, CONCURRENCY and CARRY make functions
// instead, when the first take needs them; CARRY has TALLY in it. LOAD reads text, the value of a bucket, into
// kind, a, b, c, wide, stored_mark and terms; SAVE writes it, with mark and terms,
// and KEPT_SAVE where kept says whether its time to live stays as it is; PACK, in both, finds
// its short form. MARK finds the mark of a limit, TERMS what is in its bits. QUICK decides
// what counts in integers and what drains, where nothing is rare about it, and moves place on;
// LIKELY what counts in integers and is likely to pass.
var sections = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer(
		"SLIDING_WINDOW\n", luaSlidingWindow,
		"FIXED_WINDOW\n", luaFixedWindow,
		"SUB_WINDOWS\n", luaSubWindows,
		"SLIDING_LOG\n", luaSlidingLog,
		"TAT\n", luaTAT,
		"CONCURRENCY\n", luaConcurrency,
		"BAN\n", luaBan,
		"CARRY\n", strings.Replace(luaCarry, "TALLY\n", strings.Replace(luaTally, "LOAD\n", luaLoadWhole, 1), 1),
		"TERMS\n", luaTerms,
		"MARK\n", luaMark,
		"LIMIT\n", limitSections.Replace(luaLimit),
		"LIKELY\n", luaLikely,
		"QUICK\n", luaQuick,
		"KEPT_SAVE\n", packing.Replace(strings.Replace(luaKeptSave, "SAVE\n", luaSave, 1)),
		"SAVE\n", packing.Replace(luaSave),
		"LOAD\n", luaLoadWhole,
	)
})

// limitSections are those in limit.lua.
var limitSections = strings.NewReplacer(
	"MARK\n", luaMark,
	"TERMS\n", luaTerms,
	"SUB_WINDOWS\n", luaSubWindows,
	"SLIDING_LOG\n", luaSlidingLog,
	"CONCURRENCY\n", luaConcurrency,
)

// packing puts PACK into what writes a state.
var packing = strings.NewReplacer("PACK\n", luaPack)

// luaLoadWhole is LOAD.
var luaLoadWhole = strings.Replace(luaLoad, "UNPACK\n", luaUnpack, 1)

// constants are put into the script where their names stand: a local variable
// would have to be made again in every call.
var constants = strings.NewReplacer(
	"MAX_INSTANT", "4503599627370496", // 2^52
	"MAX_STORED", "9007199254740991", // 2^53 - 1
	"MAX_COUNT", "2251799813685248", // 2^51
	"MAX_QUOTA", "1125899906842624", // 2^50
	"MAX_PERIOD", "31622400000000", // 366 days
	"MAX_PARTS", "61",
	"NEVER", strconv.Itoa(verdictNever),
	"CALENDAR_ZERO", strconv.Itoa(calendarZero),
	"CALENDAR", strconv.Itoa(codeCalendar),
	"TAKE_BYTES", strconv.Itoa(takeBytes),
	"STAMP_BYTES", strconv.Itoa(stampBytes),
	"SLOT_BYTES", strconv.Itoa(slotBytes),
	"MAX_SLOTS", strconv.Itoa(2*limit.MaxConcurrency),
	"MAX_DRAIN", "1125899906842624", // 2^50
	"DEBT_BURSTS", "64",
	"DEBT_US", "3600000000", // an hour
	"PACKED_FORM", strconv.Itoa(1<<packedFormShift),
	"PACKED_WINDOW", strconv.Itoa(1<<packedWindowShift),
	"PACKED_COUNTS", strconv.Itoa(packedCounts),
	"LATER", strconv.Itoa(answerLater),
	"LOG_HEAD", "64",
	"LOG_KEPT", "3600000000", // an hour
	"MAX_TALLIES", "8",
	"TTL_MARGIN_MS", "1000",
)

// script is a script, put together when it is first asked for: a process that talks to no
// Redis need not wait for that when it starts.
type script struct {
	whole func() wholeScript
	// optional is a script that decides nothing, and for which the user may lack rights.
	optional bool
}

// wholeScript is what Redis gets, and the name under which it remembers that.
type wholeScript struct{ text, sha string }

func (s *script) text() string { return s.whole().text }
func (s *script) sha() string  { return s.whole().sha }

// newScript returns the script whose parts join puts together; it gets the macros and the
// constants besides.
func newScript(join func() string) *script {
	return &script{whole: sync.OnceValue(func() wholeScript {
		text := constants.Replace(expandBytes(join()))
		return wholeScript{text: text, sha: scriptSHA(text)}
	})}
}

// optional says that the user may lack rights for s.
func optional(s *script) *script {
	s.optional = true
	return s
}

// takeScript decides batches of takes.
var takeScript = newScript(func() string { return sections().Replace(luaHead + luaTake) })

// byteMacros match the words that expandBytes writes out. There is one for each word,
// because a search for a fixed beginning passes over the rest of a script at once, and
// every process that talks to Redis puts scripts together when it starts.
var byteMacros = []*regexp.Regexp{
	regexp.MustCompile(`(BYTES)\((\w+), (\d)\)`),
	regexp.MustCompile(`(WHOLE)\((\w+), (\d)\)`),
	regexp.MustCompile(`(CHARS)\((\w+), (\d)\)`),
}

// expandBytes writes out BYTES(x, 3), which are the variables x1, x2, x3, and
// WHOLE(x, 3), the number that these bytes are, the high one first, and CHARS(x, 3),
// the bytes of the number x.
func expandBytes(text string) string {
	for _, word := range byteMacros {
		text = word.ReplaceAllStringFunc(text, func(macro string) string {
			m := word.FindStringSubmatch(macro)
			return expandMacro(m[1], m[2], int(m[3][0]-'0'))
		})
	}
	return text
}

// expandMacro writes out one macro, of the variable name and n bytes.
func expandMacro(macro, name string, n int) string {
	out := name + "1"
	if macro == "CHARS" {
		out = name + " % 256"
	}
	for i := 2; i <= n; i++ {
		switch macro {
		case "BYTES":
			out += fmt.Sprintf(", %s%d", name, i)
		case "WHOLE":
			out = fmt.Sprintf("(%s) * 256 + %s%d", out, name, i)
		case "CHARS":
			out = fmt.Sprintf("floor(%s / %d) %% 256, %s", name, int64(1)<<(8*(i-1)), out)
		}
	}
	return out
}

func scriptSHA(text string) string {
	// EVALSHA prescribes SHA-1; it protects nothing here.
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
