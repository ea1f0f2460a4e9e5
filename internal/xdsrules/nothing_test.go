package xdsrules

import (
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rules/rulefile"
)

// TestLimitOfNothing: a limit of 0 requests, whose number protocol buffers leave out, denies
// all requests, and is not no limit.
func TestLimitOfNothing(t *testing.T) {
	left := resource(textField(1, "a"), textField(2, "a"), messageField(3, textField(1, "k"), messageField(3, numberField(1, 4))))
	for name, r := range map[string]*anypb.Any{"left out": left, "written": config("a", "a", 0)} {
		files, err := documentsOf([]*anypb.Any{r})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		set, err := rulefile.Load(files, rulefile.Options{Compat: true})
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, files[0].Data)
		}
		if all := set.Rules(); len(all) != 1 || len(all[0].Limits) != 1 || all[0].Limits[0].Quota != 0 {
			t.Errorf("%s: %s", name, files[0].Data)
		}
	}
}
