package redisstore

import (
	"context"
	crand "crypto/rand"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

//go:embed lua/share.lua
var luaShare string

const (
	// sharedName is what the name of what nodes share has after the prefix.
	sharedName = "shared"
	// sharedLife is how long what nodes share lives after it was last written, and the most
	// that anything in it lasts.
	sharedLife = time.Hour
	// endDigits is how an end is written, and lastEnd the last one.
	endDigits = 16
	lastEnd   = 1<<53 - 1
)

var shareScript = optional(newScript(func() string {
	return strings.NewReplacer(
		"MAX_SHARED", strconv.Itoa(store.MaxShared),
		"MAX_LENGTH", strconv.Itoa(16+store.MaxShared*(16+endDigits+3+store.MaxSharedText)),
		"SHARED_MS", strconv.FormatInt(sharedLife.Milliseconds(), 10),
	).Replace(luaShare)
}))

var _ store.Sharer = (*Store)(nil)

// Share implements store.Sharer for all who use this Redis with this prefix. What is
// shared is one key, in a cluster of the first bucket tag, of at most 50 KB. A call
// lasts no longer than the budget; errors are *store.Error.
func (s *Store) Share(ctx context.Context, told []store.Shared) (store.Sharing, error) {
	const op = "share"
	for i := range told {
		if n := len(told[i].Text); n > store.MaxSharedText {
			return store.Sharing{}, s.refuse(op, store.Misconfigured, fmt.Sprintf("at most %d", store.MaxSharedText), fmt.Errorf("a text of %d bytes", n))
		}
	}
	told = told[:min(len(told), store.MaxShared)]
	var salt [16]byte   // if there is none
	crand.Read(salt[:]) // never fails
	args := append(make([]string, 0, 1+3*len(told)), string(salt[:]))
	for i := range told {
		t := &told[i]
		args = append(args, string(t.Name[:]), fmt.Sprintf("%0*d", endDigits, min(max(int64(t.Until), 0), lastEnd)), string(t.Text))
	}
	var sharing store.Sharing
	body := &plain{
		keys: []string{s.prefix(keyHash{}) + sharedName}, args: args,
		read: func(rest []resp.Message) bool {
			texts, ok := stringsOf(rest)
			if ok {
				sharing, ok = sharingOf(texts)
			}
			return ok
		},
	}
	if err := s.askFirst(ctx, op, shareScript, body, s.options.Budget); err != nil {
		return store.Sharing{}, err
	}
	sharing.Now = body.now
	return sharing, nil
}

// stringsOf returns messages that are all texts.
func stringsOf(messages []resp.Message) ([]string, bool) {
	texts := make([]string, len(messages))
	for i := range messages {
		var err error
		if texts[i], err = messages[i].Text(); err != nil {
			return nil, false
		}
	}
	return texts, true
}

// sharingOf reads the salt, and a name and a value of each thing; false if they are not.
func sharingOf(texts []string) (sharing store.Sharing, ok bool) {
	if len(texts)%2 != 1 || len(texts[0]) != len(sharing.Salt) || len(texts) > 1+2*store.MaxShared {
		return sharing, false
	}
	copy(sharing.Salt[:], texts[0])
	for i := 1; i < len(texts); i += 2 {
		var one store.Shared
		name, value := texts[i], texts[i+1]
		if len(name) != len(one.Name) || len(value) < endDigits || len(value) > endDigits+store.MaxSharedText {
			return sharing, false
		}
		until, err := strconv.ParseUint(value[:endDigits], 10, 63)
		if err != nil {
			return sharing, false
		}
		copy(one.Name[:], name)
		one.Until, one.Text = limit.Micros(until), []byte(value[endDigits:])
		sharing.All = append(sharing.All, one)
	}
	return sharing, true
}
