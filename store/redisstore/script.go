package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
)

// The script that decides batches is put together from these files. The first
// says what it takes and returns; those of the algorithms are the branches of
// one function between it and the last, which goes through the takes.
var (
	//go:embed lua/head.lua
	luaHead string
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
	//go:embed lua/take.lua
	luaTake string
)

// constants are put into the script where their names stand: a local variable
// would have to be made again in every call.
var constants = strings.NewReplacer(
	"MAX_INSTANT", "4503599627370496", // 2^52
	"MAX_STORED", "9007199254740991", // 2^53 - 1
	"MAX_COUNT", "2251799813685248", // 2^51
	"MAX_PERIOD", "31622400000000", // 366 days
	"MAX_PARTS", "61",
	"STAMP_BYTES", strconv.Itoa(stampBytes),
	"LOG_HEAD", "64",
	"TTL_MARGIN_MS", "1000",
)

// takeScript is the whole script, and takeSHA the name under which Redis
// remembers it.
var (
	takeScript = buildScript()
	takeSHA    = scriptSHA(takeScript)
)

// buildScript makes the function section, which returns, for the number of an
// algorithm as the script counts them,
//
//	decide(p, state, hits, refund, s) -> state, flags, remaining, reset, retry, delay
//
// where p is the place of the limit's numbers in ARGV. The state returned is
// another table when it is to be written. With refund > 0 that many hits are
// given back first and hits is 0. The log also returns how to load and save.
func buildScript() string {
	return constants.Replace(strings.Join([]string{
		luaHead,
		"local function section(algorithm)",
		"if algorithm == 1 then", luaSlidingWindow,
		"elseif algorithm == 2 or algorithm == 9 then", luaFixedWindow,
		"elseif algorithm == 3 then", luaSubWindows,
		"elseif algorithm == 4 then", luaSlidingLog,
		"else", luaTAT,
		"end",
		"end",
		luaTake,
	}, "\n"))
}

func scriptSHA(text string) string {
	// EVALSHA prescribes SHA-1; it protects nothing here.
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
