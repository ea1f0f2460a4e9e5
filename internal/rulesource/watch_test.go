package rulesource

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/rules"
)

// volume is a directory that is updated as Kubernetes updates a ConfigMap: the
// files of a generation stand in a directory of its own, ..data is a link to it
// that is replaced by a rename, and the names that a reader sees are links
// through ..data.
type volume struct {
	t    *testing.T
	path string
	// old is the directory of the generation before.
	old string
}

func newVolume(t *testing.T) *volume {
	return &volume{t: t, path: filepath.Join(t.TempDir(), "volume")}
}

func (v *volume) must(err error) {
	if err != nil {
		v.t.Error(err)
	}
}

// update makes files the content of the volume.
func (v *volume) update(generation int, files map[string]string) {
	dir := fmt.Sprintf("..gen_%d", generation)
	v.must(os.MkdirAll(filepath.Join(v.path, dir), 0o755))
	for name, text := range files {
		v.must(os.WriteFile(filepath.Join(v.path, dir, name), []byte(text), 0o600))
	}
	v.must(os.Symlink(dir, filepath.Join(v.path, "..data_tmp")))
	v.must(os.Rename(filepath.Join(v.path, "..data_tmp"), filepath.Join(v.path, "..data")))
	for name := range files {
		link := filepath.Join(v.path, name)
		if _, err := os.Lstat(link); err != nil {
			v.must(os.Symlink(filepath.Join("..data", name), link))
		}
	}
	if v.old != "" {
		v.must(os.RemoveAll(filepath.Join(v.path, v.old)))
	}
	v.old = dir
}

// generationFiles returns three files of three domains with the same number.
func generationFiles(n int) map[string]string {
	files := map[string]string{}
	for _, domain := range []string{"a", "b", "c"} {
		files[domain+".yaml"] = fmt.Sprintf("domain: %s\ndescriptors:\n  - {key: k, rate_limit: {unit: minute, requests_per_unit: %d}}\n", domain, n)
	}
	return files
}

// generationOf returns the number in set, which all rules must share.
func generationOf(t *testing.T, set *rules.Set) int64 {
	t.Helper()
	list := set.Rules()
	if len(list) != 3 {
		t.Errorf("%d rules, want 3", len(list))
		return 0
	}
	for _, r := range list {
		if r.Limits[0].Quota != list[0].Limits[0].Quota {
			t.Errorf("torn: generations %d and %d at one time", list[0].Limits[0].Quota, r.Limits[0].Quota)
		}
	}
	return list[0].Limits[0].Quota
}

// TestSwappedVolumeIsNeverTorn swaps the volume thousands of times while it is
// read, and the last generation must be in force in the end. Now and then the writer
// waits for the reader, which may be so much slower that it would see nothing else.
func TestSwappedVolumeIsNeverTorn(t *testing.T) {
	const swaps, each = 2000, 100
	v := newVolume(t)
	v.update(1, generationFiles(1))
	s, r := loaded(t, Options{Path: v.path})
	var writer sync.WaitGroup
	done, waits, read := make(chan struct{}), make(chan struct{}), make(chan struct{})
	writer.Go(func() {
		defer close(done)
		for n := 2; n <= swaps; n++ {
			v.update(n, generationFiles(n))
			if n%each == 0 {
				waits <- struct{}{}
				<-read
			}
		}
	})
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-waits:
			s.check(false)
			read <- struct{}{}
		default:
			s.check(false)
		}
	}
	writer.Wait()
	last := int64(0)
	for _, set := range r.applied {
		n := generationOf(t, set)
		if n <= last {
			t.Errorf("generation %d after %d", n, last)
		}
		last = n
	}
	if last != swaps {
		t.Errorf("generation %d in force in the end, want %d; last event %v", last, swaps, r.last().Err)
	}
	if len(r.applied) < swaps/each {
		t.Errorf("only %d generations were seen", len(r.applied))
	}
}

// TestVolumeIsReadOnce holds that neither ..data nor the directory of a
// generation is taken for a second copy of the files.
func TestVolumeIsReadOnce(t *testing.T) {
	v := newVolume(t)
	v.update(1, generationFiles(1))
	files, err := Read(v.path, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 || files[0].Name != filepath.Join(v.path, "a.yaml") {
		t.Errorf("files %v", files)
	}
}

// running runs s and hands on what it applies.
func running(t *testing.T, path string) (*Source, <-chan *rules.Set, <-chan Event) {
	t.Helper()
	applied, events := make(chan *rules.Set, 100), make(chan Event, 100)
	s, err := New(Options{
		Path:   path,
		Poll:   time.Hour, // what is found is found by the watch
		Apply:  func(set *rules.Set) { applied <- set },
		Report: func(e Event) { events <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	<-applied
	<-events
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { s.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return s, applied, events
}

func TestWatchSeesSwap(t *testing.T) {
	v := newVolume(t)
	v.update(1, generationFiles(1))
	_, applied, _ := running(t, v.path)
	for n := 2; n < 6; n++ {
		v.update(n, generationFiles(n))
		for generationOf(t, <-applied) != int64(n) {
		}
	}
}

func TestWatchSeesEverySortOfChange(t *testing.T) {
	base := t.TempDir()
	dir := base + "/rules"
	write(t, dir+"/a.yaml", ruleText("a", 1))
	_, applied, events := running(t, dir)
	wait := func(what string, n int) {
		t.Helper()
		if got := (<-applied).NumRules(); got != n {
			t.Fatalf("%s: %d rules, want %d", what, got, n)
		}
		<-events
	}
	write(t, dir+"/a.yaml", ruleText("a", 2))
	wait("written in place", 2)

	write(t, dir+"/a.yaml.tmp", ruleText("a", 3))
	if err := os.Rename(dir+"/a.yaml.tmp", dir+"/a.yaml"); err != nil {
		t.Fatal(err)
	}
	wait("replaced by a rename", 3)

	write(t, base+"/sub/b.yaml", ruleText("b", 2))
	if err := os.Rename(base+"/sub", dir+"/sub"); err != nil {
		t.Fatal(err)
	}
	wait("a new directory", 5)

	write(t, dir+"/sub/b.yaml", ruleText("b", 3))
	wait("a file in the new directory", 6)

	write(t, base+"/next/a.yaml", ruleText("a", 4))
	if err := os.Rename(dir, base+"/previous"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(base+"/next", dir); err != nil {
		t.Fatal(err)
	}
	// A look may fall between the two renames.
	for e := range events {
		if e.Kind == Loaded {
			break
		}
	}
	if got := (<-applied).NumRules(); got != 4 {
		t.Fatalf("the directory replaced: %d rules", got)
	}
}

func TestWatchSeesLinkedFile(t *testing.T) {
	base := t.TempDir()
	write(t, base+"/v1/rules.yaml", ruleText("a", 1))
	write(t, base+"/v2/rules.yaml", ruleText("a", 2))
	link := base + "/etc/current"
	if err := os.MkdirAll(base+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../v1", link); err != nil {
		t.Fatal(err)
	}
	_, applied, _ := running(t, link+"/rules.yaml")
	if err := os.Symlink("../v2", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	if got := (<-applied).NumRules(); got != 2 {
		t.Fatalf("link swapped: %d rules", got)
	}
	write(t, base+"/v2/rules.yaml", ruleText("a", 3))
	if got := (<-applied).NumRules(); got != 3 {
		t.Fatalf("file behind the link written: %d rules", got)
	}
}

func TestReloadOnDemand(t *testing.T) {
	path := t.TempDir() + "/rules.yaml"
	write(t, path, ruleText("a", 1))
	s, _, events := running(t, path)
	write(t, path, "domain: [")
	if e := <-events; e.Kind != Refused {
		t.Fatalf("event %v", e)
	}
	s.Reload()
	if e := <-events; e.Kind != Refused {
		t.Fatalf("a reload on demand told nothing: %v", e)
	}
}

// TestPollFindsWhatTheWatchMisses follows files without any watch.
func TestPollFindsWhatTheWatchMisses(t *testing.T) {
	path := t.TempDir() + "/rules.yaml"
	write(t, path, ruleText("a", 1))
	synctest.Test(t, func(t *testing.T) {
		applied := make(chan *rules.Set, 1)
		s, err := New(Options{Path: path, Apply: func(set *rules.Set) { applied <- set }})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Load(); err != nil {
			t.Fatal(err)
		}
		<-applied
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.follow(ctx, &watch{})
		synctest.Wait() // the first look is over
		write(t, path, ruleText("a", 2))
		start := time.Now()
		if got := (<-applied).NumRules(); got != 2 {
			t.Errorf("%d rules", got)
		}
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("found after %v, want the default of 10s", d)
		}
	})
}

// TestConcurrentUse asks for reloads and for the state from many goroutines
// while files change.
func TestConcurrentUse(t *testing.T) {
	v := newVolume(t)
	v.update(1, generationFiles(1))
	s, applied, events := running(t, v.path)
	var askers sync.WaitGroup
	for range 8 {
		askers.Go(func() {
			for range 200 {
				s.Reload()
				if st := s.Status(); st.Version == "" || st.Err != nil {
					t.Errorf("status %+v", st)
				}
			}
		})
	}
	v.update(2, generationFiles(2))
	askers.Wait()
	for generationOf(t, <-applied) != 2 {
	}
	if e := <-events; e.Kind != Loaded {
		t.Errorf("event %+v", e)
	}
}

func TestSettleWaitsForQuietButNotForEver(t *testing.T) {
	for _, tt := range []struct{ since, want time.Duration }{
		{0, quiet},
		{atMost - quiet, quiet},
		{atMost - quiet/2, quiet / 2},
		{atMost, 0},
		{time.Hour, 0},
	} {
		if got := wait(tt.since); got != tt.want {
			t.Errorf("after %v of changes: wait %v, want %v", tt.since, got, tt.want)
		}
	}
}

func TestInterest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/rules/a.yaml", ruleText("a", 1))
	s, err := read(dir+"/rules", false)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		dir + "/rules":          true,
		dir + "/rules/a.yaml":   true,
		dir + "/rules/new.yaml": true,
		dir + "/other":          false,
	} {
		if got := s.watch.touches(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
