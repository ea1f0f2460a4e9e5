package audit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/filelock"
	"github.com/headgate/headgate/internal/view"
)

func TestParseFiles(t *testing.T) {
	good := map[string]filesConfig{
		"file:///var/log/events": {"/var/log/events", 64 << 20, time.Hour, 168 * time.Hour, 10 << 30, time.Second, true},
		"file:///d/?max_size=1MiB&max_age=5m&keep=24h&keep_size=1TiB&fsync=always&compress=none": {
			"/d", 1 << 20, 5 * time.Minute, 24 * time.Hour, 1 << 40, syncAlways, false},
		"file:///a%20b?fsync=never&max_size=4096": {"/a b", 4096, time.Hour, 168 * time.Hour, 10 << 30, syncNever, true},
		"file:///d?fsync=250ms&compress=gzip":     {"/d", 64 << 20, time.Hour, 168 * time.Hour, 10 << 30, 250 * time.Millisecond, true},
	}
	for url, want := range good {
		got, err := parseFiles(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if diff := cmp.Diff(want, got, cmp.AllowUnexported(filesConfig{})); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
	for url, want := range map[string]string{
		"":                                     "file://",
		"kafka://b/t":                          "file://",
		"file:events":                          "file://",
		"file://events":                        "three slashes",
		"file:///":                             "no directory",
		"file://user@/d":                       "no directory",
		"file:///d#x":                          "%23",
		"file:///d?max_size=1KiB":              "max_size",
		"file:///d?max_size=99999999999GiB":    "max_size",
		"file:///d?max_size=":                  "max_size",
		"file:///d?max_age=1":                  "max_age",
		"file:///d?keep=1s":                    "keep",
		"file:///d?fsync=sometimes":            "fsync",
		"file:///d?compress=zip":               "gzip, none",
		"file:///d?max_age=1h&max_age=2h":      "more than once",
		"file:///d?maxsize=1MiB":               `"maxsize" is no setting; hint: max_size`,
		"file:///d?max_size=x&keep=y&unknown=": "unknown",
	} {
		if _, err := OpenFiles(url, SinkOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", url, err, want)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	f.Add("file:///d?max_size=1MiB&fsync=1s")
	f.Add("kafka://u:secret@b1:9092,b2/topic?acks=all&tls=true&sasl=plain&timeout=3s")
	f.Fuzz(func(t *testing.T, url string) {
		if c, err := parseFiles(url); err == nil && (!filepath.IsAbs(c.dir) || c.maxSize < minFileSize || c.maxAge < minFileAge || c.keep < minKeep) {
			t.Errorf("%q: %+v", url, c)
		}
		if c, err := parseKafka(url); err == nil && (len(c.brokers) == 0 || !isTopic(c.topic) || c.timeout < minDelivery || (c.sasl == "") != (c.mechanism() == nil)) {
			t.Errorf("%q: %+v", url, c)
		}
	})
}

// opened opens the sink of a directory with settings, which the test ends.
func opened(t testing.TB, dir, settings string, o SinkOptions) *files {
	t.Helper()
	s, err := OpenFiles("file://"+dir+"?"+settings, o)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*files)
}

// ends closes a sink within a generous time.
func ends(t testing.TB, s Sink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// batch makes a batch of events with these IDs.
func batch(ids ...string) Batch {
	var b Batch
	for _, id := range ids {
		e := view.Event{Schema: 1, EventID: id, Key: "user:" + id, UserAgent: browser}
		b.Lines = append(appendEvent(b.Lines, &e), '\n')
		b.Events = append(b.Events, Line{Key: e.Key, End: len(b.Lines)})
	}
	return b
}

// ids returns n IDs that begin alike.
func ids(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%s%05d", prefix, i))
	}
	return list
}

// readFile returns the IDs of the events of a file, and fails where a line is none.
func readFile(t testing.TB, path string) (list []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var e view.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v: %s", path, err, lines.Bytes())
		}
		list = append(list, e.EventID)
	}
	return list
}

// list returns the files of a directory.
func list(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// readAll returns the IDs of all events of the finished files of a directory, in order.
func readAll(t testing.TB, dir string) (all []string) {
	t.Helper()
	for _, path := range list(t, dir) {
		if !strings.HasSuffix(path, ".jsonl") && !strings.HasSuffix(path, ".jsonl.gz") {
			t.Errorf("%s is not finished", path)
		}
		all = append(all, readFile(t, path)...)
	}
	return all
}

// written waits until a sink has written n events.
func written(t testing.TB, s Sink, n uint64) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d events are written", n), func() bool {
		w, _, _ := s.Counts()
		return w == n
	})
}

func TestFiles(t *testing.T) {
	for _, settings := range []string{"fsync=always", "fsync=1ms&compress=none", "fsync=never", "max_size=4KiB", "max_size=4KiB&fsync=always&compress=none"} {
		t.Run(settings, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "to", "events")
			s := opened(t, dir, settings, SinkOptions{Node: "node/1 é"})
			want := ids("e", 500)
			for part := range slices.Chunk(want, 7) {
				s.Write(batch(part...))
			}
			ends(t, s)
			if w, f, err := s.Counts(); w != 500 || f != 0 || err != nil {
				t.Errorf("%d written, %d failed, %v", w, f, err)
			}
			if diff := cmp.Diff(want, readAll(t, dir)); diff != "" {
				t.Error(diff)
			}
			suffix := ".jsonl.gz"
			if strings.Contains(settings, "none") {
				suffix = ".jsonl"
			}
			paths := list(t, dir)
			for _, path := range paths {
				info, err := os.Stat(path)
				if err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(filepath.Base(path), "events-node_1__-20") || !strings.HasSuffix(path, suffix) {
					t.Errorf("%s: %v, %v", path, info.Mode(), err)
				}
				if suffix == ".jsonl" && strings.Contains(settings, "4KiB") && info.Size() > 4096 {
					t.Errorf("%s has %d bytes", path, info.Size())
				}
			}
			if many := len(paths) > 1; many != strings.Contains(settings, "4KiB") {
				t.Errorf("%d files", len(paths))
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

// While it is written a file has a name of its own.
func TestOpenFileIsNamedApart(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir, "", SinkOptions{Node: "n"})
	s.Write(batch("a"))
	written(t, s, 1)
	paths := list(t, dir)
	if len(paths) != 1 || !strings.HasSuffix(paths[0], ".jsonl.open") {
		t.Fatalf("%v", paths)
	}
	if got := readFile(t, paths[0]); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
	ends(t, s)
}

// A file that is old enough is finished, also when nothing more comes.
func TestFilesAreFinishedByAge(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir, "max_age=1s", SinkOptions{Node: "n"})
	s.Write(batch("a", "b"))
	eventually.True(t, "finished", func() bool {
		paths := list(t, dir)
		return len(paths) == 1 && strings.HasSuffix(paths[0], ".jsonl.gz")
	})
	s.Write(batch("c"))
	ends(t, s)
	if got := readAll(t, dir); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%v", got)
	}
}

// What a process that was killed has left is finished at the next start; what another
// one writes is not touched.
func TestFilesOfACrash(t *testing.T) {
	dir := t.TempDir()
	// Either of the two may finish what is left: that of other looks when it starts, too.
	other := opened(t, dir, "compress=none", SinkOptions{Node: "n"})
	other.Write(batch("other"))
	written(t, other, 1)
	left := func(name, text string) {
		t.Helper()
		// Whole at once: an empty one is removed, if that of other looks just then.
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	whole := string(batch("a", "b").Lines)
	left("events-n-20260101T000000Z-000001.jsonl.open", whole)
	left("events-m-20260101T000000Z-000002.jsonl.open", whole+`{"schema":1,"ts":17`)
	left("events-n-20260101T000000Z-000003.jsonl.open", `{"schema":1`+strings.Repeat(" ", 3*tailBytes))
	left("events-n-20260101T000000Z-000004.jsonl.open", "")
	left("events-n-20260101T000000Z-000005.jsonl.open", whole+strings.Repeat("x", tailBytes))
	left("somebody.open", "else")
	s := opened(t, dir, "compress=none", SinkOptions{Node: "n"})
	finished := func() (names []string) {
		for _, path := range list(t, dir) {
			if strings.HasSuffix(path, ".jsonl") {
				names = append(names, strings.TrimPrefix(filepath.Base(path), "events-"))
			}
		}
		return names
	}
	want := []string{"m-20260101T000000Z-000002.jsonl", "n-20260101T000000Z-000001.jsonl", "n-20260101T000000Z-000005.jsonl"}
	eventually.True(t, "finished", func() bool { return slices.Equal(finished(), want) })
	for _, name := range want {
		if got := readFile(t, filepath.Join(dir, "events-"+name)); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	s.Write(batch("mine"))
	other.Write(batch("more"))
	ends(t, s)
	ends(t, other)
	if _, err := os.Stat(filepath.Join(dir, "somebody.open")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "somebody.open")); err != nil {
		t.Fatal(err)
	}
	all := readAll(t, dir)
	slices.Sort(all)
	if !slices.Equal(all, []string{"a", "a", "a", "b", "b", "b", "mine", "more", "other"}) {
		t.Errorf("%v", all)
	}
}

// A crash between the compressed file and the end of its source leaves the events once.
func TestFinishingIsDoneOnce(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir, "", SinkOptions{Node: "n"})
	s.Write(batch("a"))
	ends(t, s)
	path := list(t, dir)[0]
	if err := os.WriteFile(strings.TrimSuffix(path, ".gz")+".open", batch("a").Lines, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".tmp", []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := janitor{c: s.janitor.c}
	j.tidy(t.Context(), time.Now())
	if err := os.Remove(path + ".tmp"); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, dir); !slices.Equal(got, []string{"a"}) || j.failure() != nil {
		t.Errorf("%v, %v", got, j.failure())
	}
}

// A file is compressed into one of its own, whatever stands under the name that it has meanwhile: through a link
// nothing is written, and no pipe is waited for.
func TestCompressingFollowsNoLink(t *testing.T) {
	theirs := filepath.Join(t.TempDir(), "theirs")
	for name, put := range map[string]func(path string) error{
		"a link":            func(path string) error { return os.Symlink(theirs, path) },
		"a link to nothing": func(path string) error { return os.Symlink(theirs+".absent", path) },
		"a second name":     func(path string) error { return os.Link(theirs, path) },
		"a pipe":            func(path string) error { return unix.Mkfifo(path, 0o600) },
		"what a crash left": func(path string) error { return os.WriteFile(path, []byte("torn"), 0o600) },
		"nothing":           func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(theirs, []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "events-n-20261122T120000Z-0000000001.jsonl")
			if err := os.WriteFile(path+".open", batch("a").Lines, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := put(path + ".gz.tmp"); err != nil {
				t.Fatal(err)
			}
			parsed, err := parseFiles("file://" + dir)
			if err != nil {
				t.Fatal(err)
			}
			j := janitor{c: parsed}
			j.tidy(t.Context(), time.Now())
			if got := readAll(t, dir); !slices.Equal(got, []string{"a"}) || j.failure() != nil {
				t.Errorf("%v, %v", got, j.failure())
			}
			if text, err := os.ReadFile(theirs); err != nil || string(text) != "theirs" {
				t.Errorf("theirs is %q, %v", text, err)
			}
			if _, err := os.Lstat(theirs + ".absent"); err == nil {
				t.Error("a file was made elsewhere")
			}
		})
	}
}

// What is wrong with all files of a directory is told of one of them: errors are logged,
// and stand in metrics and pages.
func TestTroubleOfManyFilesIsToldBriefly(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		path := filepath.Join(dir, fmt.Sprintf("events-n-20261122T120000Z-%010d.jsonl", i))
		if err := os.WriteFile(path+".open", batch("a").Lines, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path+".gz.tmp", 0o700); err != nil { // where it would be compressed
			t.Fatal(err)
		}
	}
	parsed, err := parseFiles("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	j := janitor{c: parsed}
	j.tidy(t.Context(), time.Now())
	if err := j.failure(); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), "49 files more") || len(err.Error()) > 1000 {
		t.Errorf("%v", err)
	}
}

func TestOldFilesAreRemoved(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		settings string
		want     []string
	}{
		"by age":       {"keep=72h&compress=none", []string{"3.jsonl", "2.jsonl.gz", "1.jsonl", "0.jsonl.open"}},
		"by size":      {"keep_size=10KiB&compress=none", []string{"1.jsonl", "0.jsonl.open"}},
		"by both":      {"keep=48h&keep_size=16KiB&compress=none", []string{"2.jsonl.gz", "1.jsonl", "0.jsonl.open"}},
		"none of them": {"compress=none", []string{"5.jsonl", "4.jsonl", "3.jsonl", "2.jsonl.gz", "1.jsonl", "0.jsonl.open"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var held *os.File
			for days, suffix := range []string{".jsonl.open", ".jsonl", ".jsonl.gz", ".jsonl", ".jsonl", ".jsonl"} {
				path := filepath.Join(dir, fmt.Sprintf("events-%d%s", days, suffix))
				if err := os.WriteFile(path, bytes.Repeat([]byte("x\n"), 2048), 0o600); err != nil {
					t.Fatal(err)
				}
				at := now.Add(-time.Duration(days) * 24 * time.Hour)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
				if days == 0 {
					f, err := os.Open(path)
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					if ok, err := filelock.Lock(f); !ok || err != nil {
						t.Fatal(ok, err)
					}
					held = f
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "notes.jsonl"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			parsed, err := parseFiles("file://" + dir + "?" + c.settings)
			if err != nil {
				t.Fatal(err)
			}
			j := janitor{c: parsed}
			j.tidy(t.Context(), now)
			var got []string
			for _, path := range list(t, dir) {
				if name, ok := strings.CutPrefix(filepath.Base(path), "events-"); ok {
					got = append(got, name)
				}
			}
			slices.Reverse(got)
			if diff := cmp.Diff(c.want, got); diff != "" || j.failure() != nil {
				t.Errorf("%s %v", diff, j.failure())
			}
			if _, err := os.Stat(filepath.Join(dir, "notes.jsonl")); err != nil || !inPlace(held) {
				t.Errorf("a file of somebody else: %v", err)
			}
		})
	}
}

// A full buffer fails what does not fit, and nothing else.
// A file is as old as its last event, compressed or not, and one that somebody writes is not removed, however old.
func TestAgeOfFiles(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	at := now.Add(-48 * time.Hour).Truncate(time.Second)
	put := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, batch("a").Lines, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("events-left.jsonl.open")
	written, err := os.Open(put("events-written.jsonl.open"))
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if ok, err := filelock.Lock(written); !ok || err != nil {
		t.Fatal(ok, err)
	}
	parsed, err := parseFiles("file://" + dir + "?keep=72h")
	if err != nil {
		t.Fatal(err)
	}
	j := janitor{c: parsed}
	j.tidy(t.Context(), now)
	if info, err := os.Stat(filepath.Join(dir, "events-left.jsonl.gz")); err != nil || !info.ModTime().Equal(at) || j.failure() != nil {
		t.Fatalf("%+v, %v, %v", info, err, j.failure())
	}
	j.tidy(t.Context(), now.Add(48*time.Hour))
	if paths := list(t, dir); len(paths) != 1 || paths[0] != written.Name() {
		t.Errorf("%q is left", paths)
	}
}

func TestFilesBufferIsBounded(t *testing.T) {
	s := &files{buffer: 10, wake: make(chan struct{}, 1)}
	s.Write(batch(ids("a", 7)...))
	s.Write(batch(ids("b", 7)...))
	if s.events != 10 || s.failed != 4 || len(s.queue) != 2 || len(s.queue[1].Events) != 3 {
		t.Errorf("%d wait, %d failed", s.events, s.failed)
	}
	s.buffer = 1 << 20
	s.bytes = maxWaitingBytes - s.queue[0].Events[1].End
	s.Write(batch(ids("c", 7)...))
	if s.events != 12 || s.failed != 9 {
		t.Errorf("%d wait, %d failed", s.events, s.failed)
	}
}

// A directory that goes away is made again, and what could not be written meanwhile is
// written then.
func TestDirectoryGoneAndBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	s := opened(t, dir, "compress=none", SinkOptions{Node: "n"})
	s.Write(batch("a"))
	written(t, s, 1)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, []byte("in its place"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "noticed", func() bool {
		s.Write(batch("lost")) // until it is: the file that was open is still written
		s.mu.Lock()            // the janitor may notice before
		defer s.mu.Unlock()
		return s.err != nil
	})
	before, _, _ := s.Counts()
	s.Write(batch("b"))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "works again", func() bool {
		w, _, err := s.Counts()
		return err == nil && w > before
	})
	ends(t, s)
	if got := readAll(t, dir); len(got) == 0 || got[len(got)-1] != "b" {
		t.Errorf("%v", got)
	}
	if _, failed, _ := s.Counts(); failed != 0 {
		t.Errorf("%d failed", failed)
	}
}

// TestMain is also the process that TestKilledProcess kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HEADGATE_TEST_WRITE_EVENTS"); dir != "" {
		writeForever(dir)
	}
	goleak.VerifyTestMain(m)
}

// writeForever writes events and says after each batch how many it knows to be written.
func writeForever(dir string) {
	s, err := OpenFiles("file://"+dir+"?max_size=64KiB&fsync=never", SinkOptions{Node: "child"})
	if err != nil {
		panic(err)
	}
	tick := time.NewTicker(time.Millisecond)
	for n := 0; ; n += 50 {
		s.Write(batch(ids(fmt.Sprintf("b%07d-", n), 50)...))
		for w := uint64(0); w < uint64(n+50); w, _, _ = s.Counts() {
			<-tick.C
		}
		fmt.Println(n + 50)
	}
}

// What is written when a process is killed is there, in files that have whole lines
// only, while two other processes write the same directory.
func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	mine := opened(t, dir, "max_size=64KiB", SinkOptions{Node: "mine"})
	counts := make([]int, 2)
	for i := range counts {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HEADGATE_TEST_WRITE_EVENTS="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for counts[i] < 3000 && lines.Scan() {
			if _, err := fmt.Sscan(lines.Text(), &counts[i]); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			mine.Write(batch(fmt.Sprintf("mine-%d-%d", i, counts[i])))
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // says that it was killed
	}
	ends(t, mine)
	all := readAll(t, dir)
	if want := counts[0] + counts[1] + (counts[0]+counts[1])/50; len(all) < want || counts[0] < 3000 || counts[1] < 3000 {
		t.Errorf("%d events are there, of %d that were written", len(all), want)
	}
}

func BenchmarkFiles(b *testing.B) {
	for _, settings := range []string{"fsync=1s", "fsync=1s&compress=none", "fsync=always"} {
		b.Run(settings, func(b *testing.B) {
			benchmarkEvents(b, Options{Sample: 1, Node: "n", Sinks: []Sink{opened(b, b.TempDir(), settings, SinkOptions{})}})
		})
	}
}
