package chainfile

import (
	"strings"
	"testing"
)

// So many heads are kept, and not one more; one of a version that is known has room.
func TestHeadsAreBounded(t *testing.T) {
	all := &Heads{hashes: make(map[int64]string, maxHeads)}
	for version := range int64(maxHeads) {
		all.hashes[version] = ""
	}
	if err := all.add(&Head{Version: 7}, nil); err != nil || all.Len() != maxHeads {
		t.Errorf("%d heads, %v", all.Len(), err)
	}
	if err := all.add(&Head{Version: maxHeads}, nil); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("one more: %v", err)
	}
}
